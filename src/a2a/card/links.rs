//! Links for people (`documentationUrl`, `iconUrl`, `provider.url`): passed, unless they lead to the agent's own servers.
//!
//! A link says nothing of how to call the agent, so it is never rewritten; but one to a server that callers reach through
//! the gateway only is of no use to them and tells where the agent is. It is left out, and `provider` as a whole, because
//! readers refuse one without its `url`; so are links that are no text. What configuration overrides say is the operator's word and not looked at.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::names::same;
use super::{OriginCard, Publication};

const LINKS: [&str; 2] = ["documentationUrl", "iconUrl"];
const PROVIDER: &str = "provider";
/// Where a card says how to call its agent: members that are a URL, and lists of objects with a `url`.
const PLACES: [&str; 3] = ["url", "additionalInterfaces", "supportedInterfaces"];

/// A host in lower case and its port, where it can be told.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    host: String,
    port: Option<u16>,
}

/// Servers that callers reach through the gateway only.
pub(super) struct Hidden(BTreeMap<String, BTreeSet<Option<u16>>>);

impl Hidden {
    /// Those that the configuration names and those that the card itself names, but not the gateway.
    pub(super) fn of(origin: &OriginCard, input: &Publication) -> Self {
        let public = server(&input.public_url);
        let configured = input.upstream.iter().map(String::as_str);
        let servers = configured
            .chain(interfaces(&origin.members))
            .filter_map(server)
            .filter(|server| Some(server) != public.as_ref());
        let mut hidden = BTreeMap::<_, BTreeSet<_>>::new();
        for Server { host, port } in servers {
            hidden.entry(host).or_default().insert(port);
        }
        Self(hidden)
    }

    /// Whether a member of the card may be published as it is.
    pub(super) fn admits(&self, name: &str, value: &Value) -> bool {
        // What is no text is no link, and nobody knows where it leads.
        let admits = |value: &Value| value.is_null() || value.as_str().is_some_and(|url| self.admits_link(url));
        if LINKS.iter().any(|link| same(link, name)) {
            return admits(value);
        }
        if !same(PROVIDER, name) || value.is_null() {
            return true;
        }
        let members = value.as_object();
        members.is_some_and(|members| {
            let mut urls = members.iter().filter(|(name, _)| same("url", name));
            urls.all(|(_, url)| admits(url))
        })
    }

    fn admits_link(&self, url: &str) -> bool {
        let Some(link) = server(url) else { return true };
        let hidden = self.0.get(&link.host);
        hidden.is_none_or(|ports| link.port.is_some() && !ports.contains(&link.port) && !ports.contains(&None))
    }
}

/// Every URL at which the card says that its agent can be called, by whatever binding.
fn interfaces(members: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let places = members
        .iter()
        .filter(|(name, _)| PLACES.iter().any(|place| same(place, name)));
    places.flat_map(|(_, value)| {
        let entries = value.as_array().into_iter().flatten().filter_map(Value::as_object);
        let urls = entries.flatten().filter(|(name, _)| same("url", name));
        urls.map(|(_, url)| url).chain([value]).filter_map(Value::as_str)
    })
}

/// As lenient as the browsers that links are for: with spaces around, backslashes, any or no scheme.
fn server(url: &str) -> Option<Server> {
    let url: String = url.chars().filter(|c| !c.is_ascii_control() && *c != ' ').collect();
    let url = url.replace('\\', "/");
    let (scheme, rest) = match url.split_once("//") {
        Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => {
            (scheme.trim_end_matches(':').to_ascii_lowercase(), rest)
        }
        // gRPC is often said as `host:port`; a path is on whatever server the card is on.
        Some(_) | None => (String::new(), url.as_str()),
    };
    let authority = rest.trim_start_matches('/').split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let after_address = authority.rfind(']').map_or(0, |end| end + 1);
    let colon = authority.get(after_address..)?.find(':').map(|at| at + after_address);
    let (host, port) = colon
        .and_then(|colon| authority.split_at_checked(colon))
        .unwrap_or((authority, ""));
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let implied = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let port = port.trim_start_matches(':').parse().ok().or(implied);
    (!host.is_empty()).then_some(Server { host, port })
}
