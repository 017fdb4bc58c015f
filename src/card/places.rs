//! Where the card of an agent may be: the places to look, in order.
//!
//! SDKs disagree on whether the well-known path is appended to the agent's base path or stands at the root of the host, so
//! both are tried, the longer one first: at the root of a shared host stands somebody else's card.

use crate::config::{Endpoint, shown_url};

/// The path since 0.3, and the one before; some servers of 0.3 answer both.
const WELL_KNOWN: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// One server that may have the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Tried in order for as long as the server answers that there is no card.
    pub urls: Vec<String>,
}

impl Place {
    /// Whether this is where a card was found, as people may see it.
    pub fn shows(&self, place: &str) -> bool {
        self.urls.iter().any(|url| shown_url(url) == place)
    }
}

/// `configured` is `card.url`: then nothing else is asked.
pub fn places(endpoints: &[Endpoint], configured: Option<&str>) -> Vec<Place> {
    match configured {
        Some(url) => vec![Place {
            urls: vec![url.to_owned()],
        }],
        None => endpoints.iter().map(|endpoint| well_known(&endpoint.url)).collect(),
    }
}

/// Where an agent of 0.2 has its extended card: beside its URL (A2A 0.2.6 §5.3), which official servers take for below it.
pub fn extended_places(url: &str) -> Vec<String> {
    const PATH: &str = "/agent/authenticatedExtendedCard";
    let base = base(url);
    let beside = base.rsplit_once('/').map(|(beside, _)| beside);
    // Not beside the host.
    let beside = beside.filter(|beside| !beside.ends_with('/'));
    let bases = [Some(base), beside].into_iter().flatten();
    bases.map(|base| format!("{base}{PATH}")).collect()
}

fn base(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    url.trim_end_matches('/')
}

fn well_known(url: &str) -> Place {
    let base = base(url);
    let after_scheme = base.find("://").map_or(0, |at| at + "://".len());
    let root = base
        .get(after_scheme..)
        .and_then(|rest| rest.find('/'))
        .and_then(|slash| base.get(..after_scheme + slash));
    let urls = [Some(base), root]
        .into_iter()
        .flatten()
        .flat_map(|base| WELL_KNOWN.map(|path| format!("{base}{path}")))
        .collect();
    Place { urls }
}
