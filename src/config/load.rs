//! From text to what serde fills: parse, expand, override, fit to the schema; in this order, collecting problems. Agents in files of their
//! own are laid behind those of the tree (`fragments`).

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::path::Path;

use super::check::{self, Invalid};
use super::environment::Environment;
use super::fragments::{self, Found, Spares, Standing};
use super::model::Config;
use super::raw::Raw;
use super::tree::Node;
use super::{Problem, expand, files, overlay, schema, shape, tree};

/// Reads and checks the file. Relative paths in it start at its folder.
pub fn load(path: &Path, environment: &Environment) -> Result<Config, Vec<Problem>> {
    examine(path, environment).map_err(|invalid| invalid.problems)
}

/// The same; whoever reads the files that the configuration names can go on with what is good in one that has mistakes.
pub fn examine(path: &Path, environment: &Environment) -> Result<Config, Box<Invalid>> {
    examine_again(path, environment, &Standing::default())
}

/// The same beside a configuration in force, of whose fragments those stay that have become bad.
pub fn examine_again(path: &Path, environment: &Environment, standing: &Standing) -> Result<Config, Box<Invalid>> {
    let text = files::read_any_text(path).map_err(|error| {
        let problem = Problem::new("configuration", super::with_causes(&error));
        Invalid::new(vec![problem])
    })?;
    let base = path.parent().unwrap_or_else(|| Path::new(""));
    read(&text, base, environment, standing)
}

/// The same for text at hand; relative paths start at `base`.
pub fn parse(text: &str, base: &Path, environment: &Environment) -> Result<Config, Vec<Problem>> {
    read(text, base, environment, &Standing::default()).map_err(|invalid| invalid.problems)
}

fn read(text: &str, base: &Path, environment: &Environment, standing: &Standing) -> Result<Config, Box<Invalid>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut root = tree::parse(text).map_err(|problem| Invalid::new(vec![problem]))?;
    let mut problems = Vec::new();
    expand::expand(&mut root, environment, &mut problems);
    overlay::lay(&mut root, environment, schema::shared(), &mut problems);
    let Some(folder) = fragments::folder(&root) else {
        return fit(&root, base, problems, &Spares::default());
    };
    let found = Found::read(&base.join(folder), standing);
    let beside = std::hash::BuildHasher::hash_one(&BuildHasherDefault::<DefaultHasher>::new(), text);
    fragments::settle(&root, &found, environment, standing, beside, |root, spares| {
        fit(root, base, problems.clone(), spares)
    })
}

/// `problems` are those that were found in the text.
pub(super) fn fit(
    root: &Node,
    base: &Path,
    mut problems: Vec<Problem>,
    spares: &Spares,
) -> Result<Config, Box<Invalid>> {
    let fitted = shape::fit(root, schema::shared());
    problems.extend(fitted.problems);
    let raw = match serde_json::from_value::<Raw>(fitted.value) {
        Ok(raw) => raw,
        Err(error) => {
            // `shape` lets nothing through that does not deserialise, unless the whole file was given up.
            if problems.is_empty() {
                problems.push(Problem::new("configuration", error.to_string()));
            }
            return Err(Invalid::new(problems));
        }
    };
    check::check(&raw, base, fitted.places, problems, spares)
}
