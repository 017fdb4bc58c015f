//! Tells when any of a set of files changed, or any file of agents in a folder.
//!
//! Folders are watched, not files: a file that is replaced by renaming, or by a Kubernetes `..data` symlink, is another
//! file afterwards. An event is only a hint. What counts is content, so touching a file, or a folder's other files, is no
//! change, and a slow look at the files finds what events did not tell (network file systems, folders made anew).
//! Where folders cannot be watched the files are looked at every few seconds instead.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::Instant;
use zeroize::Zeroizing;

use super::sha256;
use crate::config::files;

/// Silence after an event before the files are looked at: a rotation writes several files one after the other.
const QUIET: Duration = Duration::from_millis(500);
/// Events that never pause do not keep the files from being looked at for longer than this.
const LONGEST_DELAY: Duration = Duration::from_secs(5);
/// How often to look without events.
const POLL_UNWATCHED: Duration = Duration::from_secs(5);
const POLL_WATCHED: Duration = Duration::from_secs(60);

pub struct FileWatch {
    paths: Arc<[PathBuf]>,
    seen: Vec<Seen>,
    /// There was a hint that has not been looked into.
    pending: bool,
    poll_unwatched: Duration,
    next_poll: Instant,
    /// Holds one hint: more of them say no more.
    hints: mpsc::Receiver<()>,
    watcher: Option<RecommendedWatcher>,
}

/// A file as it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    stamp: Option<Stamp>,
    /// SHA-256 of the content; `None` if it cannot be read.
    content: Option<[u8; 32]>,
}

/// What differs whenever content may differ. The change time is set by the kernel and cannot be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileWatch {
    /// Changes from now on are told: make the watch before the files are read for use. Blocking: reads the files. A file
    /// that does not exist is watched for too.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Arc<[PathBuf]> = paths.into_iter().collect();
        let (hint, hints) = mpsc::channel(1);
        let watcher = watch(&paths, hint)
            .inspect_err(|error| {
                tracing::warn!(%error, "cannot watch folders; files are looked at every few seconds");
            })
            .ok();
        Self::begin(paths, hints, watcher, POLL_UNWATCHED)
    }

    /// Without watching folders.
    #[cfg(test)]
    pub(super) fn polling(paths: impl IntoIterator<Item = PathBuf>, every: Duration) -> Self {
        let (_, hints) = mpsc::channel(1);
        Self::begin(paths.into_iter().collect(), hints, None, every)
    }

    fn begin(
        paths: Arc<[PathBuf]>,
        hints: mpsc::Receiver<()>,
        watcher: Option<RecommendedWatcher>,
        poll_unwatched: Duration,
    ) -> Self {
        let seen = look(&paths, &[]);
        let mut watch = Self {
            paths,
            seen,
            pending: false,
            poll_unwatched,
            next_poll: Instant::now(),
            hints,
            watcher,
        };
        watch.plan_poll();
        watch
    }

    /// Folders are not watched; files are looked at every few seconds.
    pub fn is_polling(&self) -> bool {
        self.watcher.is_none()
    }

    /// Resolves when the content of a file is another than at the last time, or one came or went. Cancel safe.
    pub async fn changed(&mut self) {
        loop {
            if !self.pending {
                self.wait_for_hint().await;
            }
            if self.look_now().await {
                return;
            }
        }
    }

    /// Whether the content of a file is another than at the last time.
    pub async fn look_now(&mut self) -> bool {
        let paths = Arc::clone(&self.paths);
        let seen = self.seen.clone();
        let looked = tokio::task::spawn_blocking(move || look(&paths, &seen)).await;
        self.pending = false;
        self.plan_poll();
        // It fails only while the runtime stops.
        let Ok(looked) = looked else { return false };
        let changed = looked
            .iter()
            .map(|file| file.content)
            .ne(self.seen.iter().map(|file| file.content));
        self.seen = looked;
        if changed {
            self.watch_folders();
        }
        changed
    }

    /// Folders may have come, or be others under the same name.
    fn watch_folders(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in folders(&self.paths) {
            // What cannot be watched is looked at now and then.
            let _unwatched = watcher.watch(&folder, RecursiveMode::NonRecursive);
        }
    }

    async fn wait_for_hint(&mut self) {
        if self.watcher.is_none() {
            tokio::time::sleep_until(self.next_poll).await;
            self.pending = true;
            return;
        }
        tokio::select! {
            hint = self.hints.recv() => {
                if hint.is_none() {
                    // The watcher is gone.
                    self.watcher = None;
                }
            }
            () = tokio::time::sleep_until(self.next_poll) => {
                self.pending = true;
                return;
            }
        }
        // From here a cancelled wait looks at once the next time, instead of losing the hint.
        self.pending = true;
        let latest = Instant::now() + LONGEST_DELAY;
        loop {
            let quiet = (Instant::now() + QUIET).min(latest);
            match tokio::time::timeout_at(quiet, self.hints.recv()).await {
                Ok(Some(())) if quiet < latest => {}
                _ => return,
            }
        }
    }

    fn plan_poll(&mut self) {
        let interval = if self.watcher.is_some() {
            POLL_WATCHED
        } else {
            self.poll_unwatched
        };
        self.next_poll = Instant::now() + interval;
    }
}

fn watch(paths: &[PathBuf], hint: mpsc::Sender<()>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Our own reading causes access events. An error can be an overflow of the kernel's queue: look.
        if !matches!(event, Ok(event) if matches!(event.kind, EventKind::Access(_))) {
            // Full: a hint is waiting already.
            let _waiting = hint.try_send(());
        }
    })?;
    for folder in folders(paths) {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// Where a path stands, and where it leads if it is a symlink.
fn folders(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        Some(parent) => Some(parent.to_owned()),
        None => None,
    };
    let mut folders = BTreeSet::new();
    for path in paths {
        folders.extend(parent(path));
        if files::is_folder(path) {
            folders.insert(path.clone());
        }
        if let Ok(target) = path.canonicalize() {
            folders.extend(parent(&target));
        }
    }
    folders
}

/// Reads the files whose stamps differ from those in `before`.
fn look(paths: &[PathBuf], before: &[Seen]) -> Vec<Seen> {
    let before = before.iter().map(Some).chain(std::iter::repeat(None));
    paths
        .iter()
        .zip(before)
        .map(|(path, before)| {
            if files::is_folder(path) {
                return Seen {
                    stamp: None,
                    content: folder_content(path),
                };
            }
            // Before the content: a write in between shows as another stamp the next time.
            let stamp = stamp(path);
            match before {
                Some(before) if stamp.is_some() && before.stamp == stamp => before.clone(),
                _ => Seen {
                    stamp,
                    content: files::read(path).ok().map(|content| sha256(&Zeroizing::new(content))),
                },
            }
        })
        .collect()
}

/// Of the files of agents in it: their names and what they hold.
fn folder_content(folder: &Path) -> Option<[u8; 32]> {
    let names = files::fragments(folder).ok()?;
    let mut content = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let held = match name {
            Ok(name) if index < files::MAX_FRAGMENTS => files::read(&folder.join(name)).map(Zeroizing::new).ok(),
            Ok(_) | Err(_) => None,
        };
        let (Ok(name) | Err(name)) = name;
        content.extend_from_slice(&sha256(name.as_bytes()));
        content.extend_from_slice(&held.map_or([0; 32], |held| sha256(&held)));
    }
    Some(sha256(&content))
}

fn stamp(path: &Path) -> Option<Stamp> {
    let metadata = path.metadata().ok()?;
    Some(Stamp {
        device: metadata.dev(),
        inode: metadata.ino(),
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}
