//! What stands in the folder at a moment: bounded, and nothing in it is waited for.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::super::files::{self, MAX_FRAGMENTS};
use super::super::{Problem, with_causes};
use super::{KEY, Standing};

/// Most bytes of all files together, which are in memory: room for 10,000 agents with 6 KiB each.
const MOST_TEXT: usize = 64 * 1024 * 1024;

/// The files of a folder as they are found.
pub struct Found {
    /// Their text, or why there is none.
    pub(super) files: BTreeMap<String, Result<Arc<str>, Problem>>,
    /// Why the folder cannot be read.
    pub(super) fault: Option<Problem>,
}

impl Found {
    #[cfg(test)]
    pub fn of(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let files = files.into_iter().map(|(name, text)| (name, Ok(Arc::from(text))));
        Self {
            files: files.collect(),
            fault: None,
        }
    }

    /// Blocking.
    pub fn read(folder: &Path, standing: &Standing) -> Self {
        let mut names = match files::fragments(folder) {
            Ok(names) => names,
            Err(error) => {
                let problem = Problem::new(KEY, with_causes(&error));
                // What is in force of them stays.
                let known = standing.known.iter();
                return Self {
                    files: known.map(|(file, text)| (file.clone(), Ok(text.clone()))).collect(),
                    fault: Some(problem),
                };
            }
        };
        let fault = (names.len() > MAX_FRAGMENTS).then(|| {
            // What is in force is not driven out.
            names.sort_by_key(|name| !name.as_ref().is_ok_and(|name| standing.known.contains_key(name)));
            names.truncate(MAX_FRAGMENTS);
            let folder = folder.display();
            let cause =
                format!("{folder} has more than {MAX_FRAGMENTS} files of agents; those behind are not looked at");
            Problem::new(KEY, cause)
        });
        let mut held = 0;
        let read = |name: Result<String, String>| {
            let name = match name {
                Ok(name) => name,
                Err(name) => {
                    let problem = Problem::new(&name, "its name is not UTF-8");
                    return (name, Err(problem));
                }
            };
            let text = match files::read_text(&folder.join(&name)) {
                Ok(text) if held + text.len() > MOST_TEXT => Err(Problem::new(
                    &name,
                    format!("does not fit: the files before it and this one have more than {MOST_TEXT} bytes"),
                )),
                Ok(text) => {
                    held += text.len();
                    Ok(Arc::from(text))
                }
                Err(error) => Err(Problem::new(&name, with_causes(&error))),
            };
            (name, text)
        };
        Self {
            files: names.into_iter().map(read).collect(),
            fault,
        }
    }
}
