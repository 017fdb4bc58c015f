//! Cards that operators keep in files.

use std::path::PathBuf;

use super::model::CardFile;
use super::units::Size;
use super::{files, with_causes};
use crate::a2a::Generation;
use crate::a2a::card::{Edits, flaws, read};

impl CardFile {
    /// What the file holds, if it is a card of at most so many bytes. Blocking. The cause of a failure repeats nothing of it.
    pub fn read(path: PathBuf, most: usize) -> Result<Self, String> {
        let bytes = files::read(&path).map_err(|error| with_causes(&error))?;
        if bytes.len() > most {
            let most = Size(most);
            return Err(format!("{} is larger than `max_bytes`, {most}", path.display()));
        }
        match read(&bytes) {
            Ok(card) => Ok(Self { path, card }),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Why it would not be published, edited like this. `generation` is what the configuration says of the agent.
    pub fn fault(&self, edits: &Edits, generation: Option<Generation>) -> Option<String> {
        let flaws = flaws(&self.card, edits, self.card.written(generation));
        let path = self.path.display();
        (!flaws.is_empty()).then(|| format!("{path}: readers refuse the card: {flaws}"))
    }
}
