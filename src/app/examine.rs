//! What can be told of a configuration before anything runs: the file itself, the files that it names, the folder of its
//! store. Everything at once, and nothing that follows only from something else.

use std::path::Path;

use super::{Error, prepare};
use crate::assertion::Signer;
use crate::audit;
use crate::authenticate::Verifiers;
use crate::authorize::Points;
use crate::clock::Clock;
use crate::config::{self, Config, Environment, Problem, Sound, Standing, Store, files};
use crate::signing::CardSigner;
use crate::tls;

/// Reads a configuration file to run it. If it has mistakes, the files that it names are looked into as well. Blocking.
pub fn load(path: &Path, environment: &Environment) -> Result<Config, Vec<Problem>> {
    load_again(path, environment, &Standing::default())
}

/// The same beside a configuration in force.
pub fn load_again(path: &Path, environment: &Environment, standing: &Standing) -> Result<Config, Vec<Problem>> {
    config::examine_again(path, environment, standing).map_err(|invalid| {
        let found = in_files(&invalid.sound);
        invalid.with_files(found)
    })
}

/// Whether a configuration could be run by this user, as far as that can be told without running it. Blocking.
pub fn check(path: &Path, environment: &Environment) -> Result<(), Error> {
    let config = load(path, environment).map_err(Error::Config)?;
    let places = config.places.clone();
    let folder = match &config.state.store {
        Store::Embedded { path, .. } => in_folder(path),
        Store::Memory | Store::Redis(_) => None,
    };
    let mut problems: Vec<Problem> = folder.into_iter().collect();
    let file = config.audit.as_ref().and_then(|audit| audit::fault(&audit.file));
    problems.extend(file.map(|cause| Problem::new("audit.file", cause)));
    let mut of_fragments: Vec<Problem> = config.fragments.problems().cloned().collect();
    match prepare(config, Clock::system(), None) {
        Ok(prepared) => of_fragments = prepared.config.fragments.problems().cloned().collect(),
        Err(Error::Config(found)) => problems.extend(found),
        Err(error) => return Err(error),
    }
    places.locate(&mut problems);
    // They say themselves where they stand.
    problems.extend(of_fragments);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Error::Config(problems))
}

fn in_files(sound: &Sound) -> Vec<Problem> {
    tls::install_provider();
    let mut problems = Vec::new();
    for (key, tls) in &sound.listeners {
        problems.extend(tls::Acceptor::build(tls, key).err().into_iter().flatten());
    }
    let signer = sound
        .assertions
        .as_ref()
        .map(|keys| Signer::build(keys, &Clock::system()));
    problems.extend(signer.and_then(Result::err).into_iter().flatten());
    // Where the gateway is does not matter to the files.
    let signer = sound.card_signatures.as_ref().map(|keys| CardSigner::build(keys, ""));
    problems.extend(signer.and_then(Result::err).into_iter().flatten());
    let verifiers = Verifiers::build(&sound.schemes, &Clock::system());
    problems.extend(verifiers.err().into_iter().flatten());
    problems.extend(Points::default().renewed(&sound.points).err().into_iter().flatten());
    for (key, tls) in &sound.upstreams {
        let client = tls::client::client_config(tls, &["http/1.1"], key);
        problems.extend(client.err().into_iter().flatten());
    }
    problems.extend(sound.state.as_deref().and_then(in_folder));
    problems
}

fn in_folder(path: &Path) -> Option<Problem> {
    files::folder_fault(path).map(|cause| Problem::new("state.path", cause))
}
