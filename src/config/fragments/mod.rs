//! Agents from files of their own, in a folder: each file is taken whole or not at all, and none takes another one down.
//!
//! What is in force of a file stays while the file cannot be read, or what it says is wrong by itself or beside the others. Of two
//! files that claim the same, the one loses that is not in force, or else the later one by name; at a start every one
//! loses against the configuration file. What makes an unchanged file bad that is in force is itself refused. Keys in problems are told as
//! they stand in the file that they are about.

mod found;

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::check::Invalid;
use super::environment::Environment;
use super::model::{Agent, Config};
use super::places::Places;
use super::tree::{self, Entry, Kind, Node, Origin};
use super::{Problem, expand};

pub use found::Found;

/// The key that names the folder.
pub const KEY: &str = "agents_directory";
const AGENTS: &str = "agents";

/// The files of the folder as they stand in one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fragments {
    /// By name.
    pub in_force: Vec<Fragment>,
    /// Files whose newest version is not in force, or that name files which are bad by now.
    pub refused: Vec<RefusedFragment>,
    /// What was found wrong with agents that stand as they are in force.
    pub kept: Vec<Problem>,
    /// What the configuration file says, as a mark.
    pub(super) beside: u64,
}

/// A file whose agents are in force.
#[derive(Clone, PartialEq, Eq)]
pub struct Fragment {
    pub file: String,
    text: Arc<str>,
    /// The places of its agents in the configuration.
    pub agents: Range<usize>,
    /// It has a list of agents.
    is_list: bool,
    /// The file says something else by now.
    pub is_former: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedFragment {
    /// Empty: the folder itself.
    pub file: String,
    pub problems: Vec<Problem>,
}

/// Without what the file says: it may hold secrets.
impl fmt::Debug for Fragment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.file, self.agents)
    }
}

/// What is known already when the files are read: what is in force of them, and what of them cannot be.
#[derive(Clone, Default)]
pub struct Standing {
    known: BTreeMap<String, Arc<str>>,
    /// The agents of those files as they are in force, and beside what.
    sections: BTreeMap<String, Arc<[Agent]>>,
    beside: Option<u64>,
    refused: Vec<Refusal>,
}

/// Agents as they are in force, by their places: they stand in for those whose files say the same but name others that are bad.
#[derive(Default)]
pub struct Spares(Vec<(Range<usize>, Arc<[Agent]>)>);

impl Spares {
    pub fn get(&self, index: usize) -> Option<&Agent> {
        let (places, agents) = self.0.iter().find(|(places, _)| places.contains(&index))?;
        agents.get(index - places.start)
    }
}

/// A version of a file that cannot be taken.
#[derive(Clone)]
struct Refusal {
    file: String,
    text: Arc<str>,
    problems: Vec<Problem>,
}

impl Standing {
    pub fn of(in_force: &Fragments) -> Self {
        let known = in_force.in_force.iter();
        Self {
            known: known
                .map(|fragment| (fragment.file.clone(), fragment.text.clone()))
                .collect(),
            ..Self::default()
        }
    }

    /// The same, with what stands in for agents of files that do not change, while the configuration file does not.
    pub fn keeping(config: &Config) -> Self {
        let fragments = &config.fragments;
        let sections = fragments.in_force.iter().filter_map(|fragment| {
            let agents = config.agents.get(fragment.agents.clone())?;
            Some((fragment.file.clone(), Arc::from(agents)))
        });
        Self {
            sections: sections.collect(),
            beside: Some(fragments.beside),
            ..Self::of(fragments)
        }
    }

    fn spares(&self, beside: u64, fragments: &[Fragment]) -> Spares {
        if self.beside != Some(beside) {
            return Spares::default();
        }
        let spares = fragments.iter().filter_map(|fragment| {
            let agents = self.sections.get(&fragment.file)?;
            let same = self
                .known
                .get(&fragment.file)
                .is_some_and(|known| *known == fragment.text);
            (same && agents.len() == fragment.agents.len()).then(|| (fragment.agents.clone(), agents.clone()))
        });
        Spares(spares.collect())
    }

    /// Those of the fragments cannot be taken that `problems` are about, whose keys are of the whole configuration.
    pub fn refuse(&mut self, problems: &[Problem], fragments: &Fragments, places: &Places) -> Blame {
        let mut blame = Blame::Nobody;
        let mut lost = Vec::new();
        for fragment in &fragments.in_force {
            let of_it = |problem: &Problem| fragment.problem(&fragments.in_force, problem, places);
            let own: Vec<Problem> = problems.iter().filter_map(of_it).collect();
            if own.is_empty() {
                continue;
            }
            match self.known.get(&fragment.file) {
                Some(known) if *known == fragment.text => lost.extend(own),
                Some(_) | None => {
                    self.add(&fragment.file, &fragment.text, own);
                    blame = Blame::Newer;
                }
            }
        }
        match (blame, lost.is_empty()) {
            (Blame::Nobody, false) => Blame::InForce(lost),
            (blame, _) => blame,
        }
    }

    fn add(&mut self, file: &str, text: &Arc<str>, problems: Vec<Problem>) {
        self.refused.push(Refusal {
            file: file.to_owned(),
            text: text.clone(),
            problems,
        });
    }

    fn why_not(&self, file: &str, text: &str) -> Option<&[Problem]> {
        let mut refused = self.refused.iter();
        let found = refused.find(|refusal| refusal.file == file && *refusal.text == *text);
        found.map(|refusal| &*refusal.problems)
    }
}

/// Who is at fault.
pub enum Blame {
    Nobody,
    /// Files that were not in force so: they are left out.
    Newer,
    /// What is in force of a file became bad although it did not change: what did change is refused, with these problems.
    InForce(Vec<Problem>),
}

impl Fragments {
    /// Takes the agents of those fragments out to which these problems belong, for a configuration that has nothing to fall back to.
    pub fn take_out<T>(&mut self, problems: &[Problem], places: &Places, agents: &mut Vec<T>) -> Vec<T> {
        let all = self.in_force.clone();
        let mut out = Vec::new();
        for fragment in all.iter().rev() {
            let of_it = |problem: &Problem| fragment.problem(&all, problem, places);
            let own: Vec<Problem> = problems.iter().filter_map(of_it).collect();
            if own.is_empty() {
                continue;
            }
            let gone = fragment.agents.len();
            out.extend(agents.drain(fragment.agents.clone()));
            self.in_force.retain(|kept| kept.file != fragment.file);
            for later in &mut self.in_force {
                if later.agents.start >= fragment.agents.end {
                    later.agents = later.agents.start - gone..later.agents.end - gone;
                }
            }
            self.refused.push(RefusedFragment {
                file: fragment.file.clone(),
                problems: own,
            });
        }
        self.refused.sort_by(|one, other| one.file.cmp(&other.file));
        out
    }

    /// Tells what is wrong with agents of files that stand as they are in force.
    pub fn note(&mut self, problems: &[Problem], places: &Places) {
        for fragment in &self.in_force {
            let of_it = |problem: &Problem| fragment.problem(&self.in_force, problem, places);
            let own: Vec<Problem> = problems.iter().filter_map(of_it).collect();
            if !own.is_empty() && !self.refused.iter().any(|refused| refused.file == fragment.file) {
                self.refused.push(RefusedFragment {
                    file: fragment.file.clone(),
                    problems: own,
                });
            }
        }
        self.refused.sort_by(|one, other| one.file.cmp(&other.file));
    }

    /// The places of agents whose files say what they say there, beside the same configuration file.
    pub fn unchanged(&self, before: &Self) -> impl Iterator<Item = Range<usize>> {
        let is_in = |fragment: &&Fragment| {
            let mut known = before.in_force.iter();
            known.any(|known| known.file == fragment.file && known.text == fragment.text)
        };
        let same = self.beside == before.beside;
        let kept = self.in_force.iter().filter(move |_| same).filter(is_in);
        kept.map(|fragment| fragment.agents.clone())
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Everything that is wrong with fragments.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.refused.iter().flat_map(|refused| &refused.problems)
    }
}

impl Fragment {
    /// The problem as it stands in this file, if it is about an agent of it.
    fn problem(&self, all: &[Self], problem: &Problem, places: &Places) -> Option<Problem> {
        let (index, _) = indexed(&problem.key)?;
        if !self.agents.contains(&index) {
            return None;
        }
        let line = problem.line.or_else(|| places.line(&problem.key));
        Some(Problem {
            key: renamed(all, &problem.key),
            line,
            cause: renamed(all, &problem.cause),
        })
    }

    /// An agent of it, as its file would call it.
    fn key(&self, index: usize) -> String {
        match self.is_list {
            true => format!("{}: [{}]", self.file, index - self.agents.start),
            false => format!("{}: ", self.file),
        }
    }
}

/// The index behind `agents[`, and what follows it.
fn indexed(key: &str) -> Option<(usize, &str)> {
    let (number, rest) = key.strip_prefix(AGENTS)?.strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}

/// Keys of agents in a text, as the files call them that they stand in.
fn renamed(all: &[Fragment], text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("agents[") {
        let (before, key) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(before);
        let found = indexed(key).and_then(|(index, after)| {
            let fragment = all.iter().find(|fragment| fragment.agents.contains(&index))?;
            Some((fragment.key(index), after))
        });
        match found {
            Some((named, after)) => {
                let after = match named.ends_with(": ") {
                    true => after.strip_prefix('.').unwrap_or(after),
                    false => after,
                };
                out.push_str(&named);
                rest = after;
            }
            None => {
                out.push_str(AGENTS);
                rest = key.strip_prefix(AGENTS).unwrap_or_default();
            }
        }
    }
    out.push_str(rest);
    out
}

/// The folder that the tree names.
pub fn folder(root: &Node) -> Option<&str> {
    let Kind::Map(entries) = &root.kind else { return None };
    let entry = entries.iter().find(|entry| entry.key == KEY)?;
    match &entry.value.kind {
        Kind::Text(text) | Kind::Given(text) | Kind::Literal(text, _) if !text.is_empty() => Some(text),
        Kind::Text(_)
        | Kind::Given(_)
        | Kind::Literal(..)
        | Kind::Null
        | Kind::List(_)
        | Kind::Map(_)
        | Kind::Broken => None,
    }
}

/// A version of a file that may be taken.
#[derive(Clone)]
struct Candidate {
    file: String,
    text: Arc<str>,
    agents: Vec<Node>,
    is_list: bool,
    rank: Rank,
}

/// Who has the say about what two files claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    InForce,
    Changed,
    New,
}

/// Finds what can be taken of the files. `check` says whether a whole tree is good, with its places;
/// `before` is what was in force beside the configuration file that `beside` marks.
pub fn settle(
    root: &Node,
    found: &Found,
    environment: &Environment,
    before: &Standing,
    beside: u64,
    check: impl Fn(&Node, &Spares) -> Result<Config, Box<Invalid>>,
) -> Result<Config, Box<Invalid>> {
    let mut standing = before.clone();
    let check = |taken: &[Candidate]| {
        let spares = before.spares(beside, &in_force(root, taken, found));
        check(&merged(root, taken), &spares)
    };
    loop {
        let mut candidates = choose(found, environment, &mut standing);
        candidates.sort_by(|one, other| (one.rank, &one.file).cmp(&(other.rank, &other.file)));
        let invalid = match check(&candidates) {
            Ok(checked) => {
                // In an order that does not depend on what was in force; nothing that could be at fault is left.
                let ranked = in_force(root, &candidates, found);
                let is_sorted = candidates.is_sorted_by(|one, other| one.file <= other.file);
                candidates.sort_by(|one, other| one.file.cmp(&other.file));
                let sorted = (!is_sorted).then(|| check(&candidates));
                let (checked, in_force) = match sorted {
                    Some(Ok(checked)) => (checked, in_force(root, &candidates, found)),
                    Some(Err(_)) | None => (checked, ranked),
                };
                let mut fragments = Fragments {
                    in_force,
                    refused: refused(found, &standing),
                    kept: Vec::new(),
                    beside,
                };
                fragments.note(&checked.fragments.kept, &checked.places);
                return Ok(Config { fragments, ..checked });
            }
            Err(invalid) => invalid,
        };
        let (problems, places) = invalid.faults();
        let fragments = Fragments {
            in_force: in_force(root, &candidates, found),
            ..Fragments::default()
        };
        let known: Vec<Candidate> = candidates
            .extract_if(.., |candidate| candidate.rank == Rank::InForce)
            .collect();
        let is_good = match standing.refuse(problems, &fragments, places) {
            Blame::Newer => continue,
            // What is newer may have made it so.
            Blame::InForce(problems) => match check(&known) {
                Ok(_) => true,
                Err(_) => return Err(Invalid::new(problems)),
            },
            Blame::Nobody => check(&known).is_ok(),
        };
        // It is the configuration's own fault, or what both say together.
        if candidates.is_empty() && known.is_empty() {
            return Err(invalid);
        }
        let mut trial = Trial {
            taken: Vec::new(),
            bad: Vec::new(),
            check: |taken: &[Candidate]| {
                let invalid = check(taken).err()?;
                Some((invalid, in_force(root, taken, found)))
            },
        };
        if is_good {
            trial.taken = known;
        } else {
            check(&[])?;
            trial.take(known);
        }
        trial.take(candidates);
        for (candidate, problems) in trial.bad {
            if candidate.rank == Rank::InForce {
                return Err(Invalid::new(problems));
            }
            standing.add(&candidate.file, &candidate.text, problems);
        }
    }
}

/// Finds which of the files cannot be taken beside those before them.
struct Trial<C> {
    taken: Vec<Candidate>,
    bad: Vec<(Candidate, Vec<Problem>)>,
    check: C,
}

impl<C: Fn(&[Candidate]) -> Option<(Box<Invalid>, Vec<Fragment>)>> Trial<C> {
    /// In their order. By halves, so that few bad ones among many cost few checks.
    fn take(&mut self, mut group: Vec<Candidate>) {
        let before = self.taken.len();
        self.taken.append(&mut group);
        let Some((invalid, all)) = (self.check)(&self.taken) else {
            return;
        };
        let mut group = self.taken.split_off(before);
        if group.len() > 1 {
            let later = group.split_off(group.len() / 2);
            self.take(group);
            self.take(later);
        } else if let Some(candidate) = group.pop() {
            let (problems, _) = invalid.faults();
            let of_file = |problem: &Problem| Problem {
                key: format!("{}: {}", candidate.file, renamed(&all, &problem.key)),
                line: None,
                cause: renamed(&all, &problem.cause),
            };
            let problems = problems.iter().map(of_file).collect();
            self.bad.push((candidate, problems));
        }
    }
}

/// Of each file its newest version, or else what is in force of it, that is not refused.
fn choose(found: &Found, environment: &Environment, standing: &mut Standing) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (file, newest) in &found.files {
        let known = standing.known.get(file).cloned();
        let newest = newest.as_ref().ok();
        for text in newest.into_iter().chain(known.as_ref()) {
            if standing.why_not(file, text).is_some() {
                continue;
            }
            let rank = match &known {
                Some(known) if known == text => Rank::InForce,
                Some(_) => Rank::Changed,
                None => Rank::New,
            };
            match parse(file, text, environment) {
                Ok((agents, is_list)) => {
                    candidates.push(Candidate {
                        file: file.clone(),
                        text: text.clone(),
                        agents,
                        is_list,
                        rank,
                    });
                    break;
                }
                Err(problems) => standing.add(file, text, problems),
            }
        }
    }
    candidates
}

fn parse(file: &str, text: &str, environment: &Environment) -> Result<(Vec<Node>, bool), Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let of_file = |problem: Problem| Problem {
        key: match problem.key.as_str() {
            "configuration" => file.to_owned(),
            key => format!("{file}: {key}"),
        },
        ..problem
    };
    let mut root = tree::parse(text).map_err(|problem| vec![of_file(problem)])?;
    let mut problems = Vec::new();
    expand::expand(&mut root, environment, &mut problems);
    if !problems.is_empty() {
        return Err(problems.into_iter().map(of_file).collect());
    }
    match root.kind {
        Kind::List(agents) => Ok((agents, true)),
        Kind::Map(_) => Ok((vec![root], false)),
        Kind::Null => Err(vec![Problem::new(
            file,
            "is empty; write one agent, or a list of agents",
        )]),
        Kind::Literal(..) | Kind::Text(_) | Kind::Given(_) | Kind::Broken => Err(vec![Problem::new(
            file,
            "is no agent; write one agent, or a list of agents",
        )]),
    }
}

/// The configuration with the agents of these files behind its own.
fn merged(root: &Node, candidates: &[Candidate]) -> Node {
    let mut root = root.clone();
    let Kind::Map(entries) = &mut root.kind else {
        return root;
    };
    if !entries.iter().any(|entry| entry.key == AGENTS) {
        entries.push(Entry {
            key: AGENTS.to_owned(),
            line: None,
            value: Node {
                kind: Kind::List(Vec::new()),
                origin: Origin::Line(None),
            },
        });
    }
    for entry in entries.iter_mut().filter(|entry| entry.key == AGENTS) {
        if let Kind::List(agents) = &mut entry.value.kind {
            agents.extend(candidates.iter().flat_map(|candidate| candidate.agents.iter().cloned()));
        }
    }
    root
}

fn in_force(root: &Node, candidates: &[Candidate], found: &Found) -> Vec<Fragment> {
    let own = match &root.kind {
        Kind::Map(entries) => entries.iter().find(|entry| entry.key == AGENTS),
        Kind::Null | Kind::Literal(..) | Kind::Text(_) | Kind::Given(_) | Kind::List(_) | Kind::Broken => None,
    };
    let mut start = match own.map(|entry| &entry.value.kind) {
        Some(Kind::List(agents)) => agents.len(),
        Some(Kind::Null | Kind::Literal(..) | Kind::Text(_) | Kind::Given(_) | Kind::Map(_) | Kind::Broken) | None => 0,
    };
    let fragments = candidates.iter().map(|candidate| {
        let agents = start..start + candidate.agents.len();
        start = agents.end;
        let newest = found.files.get(&candidate.file);
        Fragment {
            file: candidate.file.clone(),
            text: candidate.text.clone(),
            agents,
            is_list: candidate.is_list,
            is_former: !matches!(newest, Some(Ok(newest)) if *newest == candidate.text),
        }
    });
    fragments.collect()
}

fn refused(found: &Found, standing: &Standing) -> Vec<RefusedFragment> {
    let folder = found.fault.iter().map(|fault| RefusedFragment {
        file: String::new(),
        problems: vec![fault.clone()],
    });
    let files = found.files.iter().filter_map(|(file, newest)| {
        let problems = match newest {
            Ok(text) => standing.why_not(file, text)?.to_vec(),
            Err(problem) => vec![problem.clone()],
        };
        let file = file.clone();
        Some(RefusedFragment { file, problems })
    });
    folder.chain(files).collect()
}
