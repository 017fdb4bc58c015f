//! A configuration with mistakes, and what of it can be looked into all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::super::model::{Assertions, CardSignatures, DecisionPoint, ListenerTls, Scheme, UpstreamTls};
use super::super::places::Places;
use super::super::{Problem, files, with_causes};
use crate::a2a::security::SchemeName;

/// The parts that name files, each with its key, as far as they are known. What stands in the place of a value that is
/// wrong itself is of no use but to read these files.
#[derive(Debug, Default)]
pub struct Sound {
    pub listeners: Vec<(String, ListenerTls)>,
    pub schemes: BTreeMap<SchemeName, Scheme>,
    pub points: BTreeMap<String, DecisionPoint>,
    pub upstreams: Vec<(String, UpstreamTls)>,
    pub assertions: Option<Assertions>,
    pub card_signatures: Option<CardSignatures>,
    /// The folder of the embedded store.
    pub state: Option<PathBuf>,
}

#[derive(Debug)]
pub struct Invalid {
    /// In the order of the file.
    pub problems: Vec<Problem>,
    pub sound: Sound,
    pub(super) places: Places,
    pub(super) named: Vec<(String, PathBuf)>,
}

impl Invalid {
    pub(in crate::config) fn new(problems: Vec<Problem>) -> Box<Self> {
        Box::new(Self {
            problems,
            sound: Sound::default(),
            places: Places::default(),
            named: Vec::new(),
        })
    }

    /// What is wrong with the file itself, and where its keys stand.
    pub(in crate::config) fn faults(&self) -> (&[Problem], &Places) {
        (&self.problems, &self.places)
    }

    /// Everything that is wrong: also what was `found` in the files of the sound parts, and every other named file that
    /// cannot be read. What is already said of a key is not said in other words. Blocking.
    pub fn with_files(self, found: Vec<Problem>) -> Vec<Problem> {
        let Self {
            mut problems,
            places,
            named,
            sound: _,
        } = self;
        let known: BTreeSet<String> = problems.iter().map(|problem| problem.key.clone()).collect();
        let mut found = found;
        places.locate(&mut found);
        for problem in found {
            if !known.contains(&problem.key) && !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let known: BTreeSet<String> = problems.iter().map(|problem| problem.key.clone()).collect();
        for (key, path) in named.iter().filter(|(key, _)| !known.contains(key)) {
            if let Err(error) = files::read(path) {
                problems.push(places.problem(key, with_causes(&error)));
            }
        }
        places.sort(&mut problems);
        problems
    }
}
