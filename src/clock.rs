//! Time, given to whoever needs it, so that tests choose it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    pub fn system() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    /// A clock that a test sets.
    pub fn from_fn(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// A clock that stands at so many seconds after 1970.
    pub fn at(unix: u64) -> Self {
        Self::from_fn(move || UNIX_EPOCH + Duration::from_secs(unix))
    }

    pub fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// Seconds since 1970-01-01T00:00:00Z.
    pub fn unix_seconds(&self) -> u64 {
        self.now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or(Duration::ZERO)
            .as_secs()
    }
}
