//! Writes the public card: members of the origin that are nobody's business pass, everything that says where the agent is
//! and what it demands is written anew.
//!
//! The card takes the forms of the generations served: 0.3, 1.0, or both side by side in one document. One interface is
//! listed a generation and binding, because clients disagree on which of several they take (the first or the last).

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::links::Hidden;
use super::names::{is_governed, is_governed_capability, is_governed_in_skill, member, same};
use super::read::generation;
use super::{OriginCard, Publication, PublishedCard, requirement, structure};
use crate::a2a::security::{SchemeName, Security};
use crate::a2a::{Binding, Generation};

pub fn publish(origin: &OriginCard, input: &Publication) -> PublishedCard {
    publish_for(origin, input, &|_| true)
}

/// For one caller, to whom skills are shown of which `shown` is true.
pub(super) fn publish_for(origin: &OriginCard, input: &Publication, shown: &dyn Fn(&str) -> bool) -> PublishedCard {
    let forms = &input.served;
    let mut card = Map::new();
    let hidden = Hidden::of(origin, input);
    let own = origin.members.iter().filter(|(name, value)| hidden.admits(name, value));
    for (name, value) in own.filter(|(name, _)| !is_governed(name)) {
        card.insert(name.clone(), value.clone());
    }
    input.edits.apply(&mut card, shown);
    structure::complete(&mut card, input.written);
    let extended = origin.capabilities.extended && input.extended && !input.enforced.is_open();
    write_capabilities(&mut card, origin, input, extended, forms);
    write_interfaces(&mut card, origin, input);
    if forms.contains(&Generation::V0_3) {
        put(&mut card, "supportsAuthenticatedExtendedCard", Value::Bool(extended));
    }
    let published = write_security(&mut card, input, forms);
    write_skills(&mut card, &published, forms);
    let value = Value::Object(card);
    PublishedCard {
        bytes: Bytes::from(value.to_string()),
        value,
    }
}

fn write_capabilities(
    card: &mut Map<String, Value>,
    origin: &OriginCard,
    input: &Publication,
    extended: bool,
    forms: &[Generation],
) {
    let mut flags = Map::new();
    let old = card.get("capabilities").and_then(Value::as_object);
    for (name, value) in old.into_iter().flatten() {
        let is_of_0_3 = same("stateTransitionHistory", name);
        if !is_governed_capability(name) && (!is_of_0_3 || forms.contains(&Generation::V0_3)) {
            flags.insert(name.clone(), value.clone());
        }
    }
    let claimed = origin.capabilities;
    let mut claim = |name, value| put(&mut flags, name, Value::Bool(value));
    claim("streaming", claimed.streaming && input.streaming);
    claim("pushNotifications", claimed.push && input.push);
    if forms.contains(&Generation::V1_0) {
        claim("extendedAgentCard", extended);
    }
    card.retain(|name, _| name == "capabilities" || !same("capabilities", name));
    put(card, "capabilities", Value::Object(flags));
}

fn write_interfaces(card: &mut Map<String, Value>, origin: &OriginCard, input: &Publication) {
    let Publication {
        public_url,
        served,
        bindings,
        spoken,
        ..
    } = input;
    if served.contains(&Generation::V0_3) {
        // As the agent says it, if that is a version of this generation: 0.2 stays 0.2.
        let version = member(&origin.members, "protocolVersion")
            .ok()
            .flatten()
            .and_then(Value::as_str)
            .filter(|version| generation(version) == Some(Generation::V0_3))
            .unwrap_or("0.3.0");
        put(card, "protocolVersion", Value::from(version));
        let preferred = bindings.first().copied().unwrap_or(Binding::JsonRpc);
        put(card, "url", Value::from(url_of(preferred, public_url)));
        put(card, "preferredTransport", Value::from(preferred.as_str()));
        // The main interface is listed again (A2A 0.3 §5.5.5).
        let all = bindings.iter().map(|binding| {
            let url = Value::from(&*url_of(*binding, public_url));
            object([("url", url), ("transport", Value::from(binding.as_str()))])
        });
        put(card, "additionalInterfaces", all.collect());
    }
    if served.contains(&Generation::V1_0) {
        let entry = |binding: Binding, generation: Generation| {
            let tenant = origin
                .interface(generation, *spoken)
                .and_then(|interface| interface.tenant.as_deref());
            let url = url_of(binding, public_url);
            let members = [
                ("url", Some(&*url)),
                ("protocolBinding", Some(binding.as_str())),
                // Clients must repeat it in every request, and the agent routes by it.
                ("tenant", tenant),
                ("protocolVersion", Some(generation.as_str())),
            ];
            let members = members.into_iter();
            object(members.filter_map(|(name, text)| Some((name, Value::from(text?)))))
        };
        let newest_first = || served.iter().rev();
        let all = (bindings.iter()).flat_map(|binding| newest_first().map(|generation| entry(*binding, *generation)));
        put(card, "supportedInterfaces", all.collect());
    }
}

/// Readers append the paths of HTTP+JSON to the URL as it stands. Of gRPC it is a host and a port without a scheme, as its
/// clients take it in every generation; whether it is TLS they are told by themselves (A2A 1.0 §4.4.6).
fn url_of(binding: Binding, public_url: &str) -> Cow<'_, str> {
    match binding {
        Binding::JsonRpc => public_url.into(),
        Binding::HttpJson => public_url.strip_suffix('/').unwrap_or(public_url).into(),
        Binding::Grpc => {
            let (scheme, rest) = public_url.split_once("://").unwrap_or(("https", public_url));
            let authority = rest.split('/').next().unwrap_or_default();
            let is_numbered = authority
                .rsplit_once(':')
                .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
            match scheme {
                _ if is_numbered => authority.into(),
                "http" => format!("{authority}:80").into(),
                _ => format!("{authority}:443").into(),
            }
        }
    }
}

/// Returns the names of the published schemes.
fn write_security(card: &mut Map<String, Value>, input: &Publication, forms: &[Generation]) -> Vec<SchemeName> {
    let mut schemes = Map::new();
    for wanted in input.enforced.alternatives.iter().flatten() {
        if let Some(scheme) = input.schemes.get(&wanted.scheme) {
            put(&mut schemes, &wanted.scheme, scheme.write(forms));
        }
    }
    let published = schemes.keys().cloned().collect();
    if !schemes.is_empty() {
        put(card, "securitySchemes", Value::Object(schemes));
    }
    // A requirement whose scheme is unknown stays: readers take it for one that nobody meets.
    if !input.enforced.alternatives.is_empty() {
        write_requirement(card, &input.enforced, forms);
    }
    published
}

/// The gateway cannot enforce what a skill demands, because no request names a skill; it carries it over where the card
/// still says what the schemes are.
fn write_skills(card: &mut Map<String, Value>, published: &[SchemeName], forms: &[Generation]) {
    let skills = card
        .get_mut("skills")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut);
    for skill in skills {
        let demanded = requirement::read(skill).ok().flatten().filter(|security| {
            let mut wanted = security.alternatives.iter().flatten();
            wanted.all(|wanted| published.contains(&wanted.scheme))
        });
        skill.retain(|name, _| !is_governed_in_skill(name));
        if let Some(security) = demanded.filter(|security| !security.alternatives.is_empty()) {
            write_requirement(skill, &security, forms);
        }
    }
}

fn write_requirement(members: &mut Map<String, Value>, security: &Security, forms: &[Generation]) {
    for form in forms {
        let name = match form {
            Generation::V0_1 | Generation::V0_3 => "security",
            Generation::V1_0 => "securityRequirements",
        };
        put(members, name, requirement::write(security, *form));
    }
}

fn put(members: &mut Map<String, Value>, name: &str, value: Value) {
    members.insert(name.to_owned(), value);
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value::Object(
        members
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
    )
}
