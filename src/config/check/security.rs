//! Security requirements: every scheme that is named can be verified, and can be met at all.

use super::super::raw::{Raw, RawClientCertificates, RawSchemeType, RawSecurity, RawSenderConstraint};
use super::super::{join, place, suggest};
use super::Check;
use crate::a2a::security::{SchemeUse, Security};

/// The requirement at `key`; what it names must stand in `security_schemes`.
pub fn security(check: &mut Check<'_>, key: &str, requirement: &RawSecurity, raw: &Raw) -> Security {
    let mut alternatives = Vec::new();
    for (index, alternative) in requirement.items() {
        let key = place(key, index);
        let mut needed = Vec::new();
        for (scheme, scopes) in alternative.items() {
            let key = join(&key, scheme);
            if !raw.security_schemes.has(scheme) && !check.was_given_up_whole("security_schemes") {
                let known: Vec<&str> = raw.security_schemes.names().collect();
                let advice = match suggest::nearest(scheme, &known) {
                    Some(near) => format!("; did you mean `{near}`?"),
                    None => String::new(),
                };
                let cause = format!("there is no `{scheme}` in security_schemes{advice}");
                check.problem(&key, cause);
            }
            let scopes: Vec<String> = scopes
                .map(|scopes| scopes.items().map(|(_, scope)| scope.clone()).collect())
                .unwrap_or_default();
            let is_certificate = raw
                .security_schemes
                .item(scheme)
                .is_some_and(|scheme| scheme.kind == Some(RawSchemeType::MutualTls));
            if is_certificate && !scopes.is_empty() {
                check.problem(&key, "client certificates carry no scopes; write `[]`");
            }
            needed.push(SchemeUse {
                scheme: scheme.clone(),
                scopes,
            });
        }
        alternatives.push(needed);
    }
    Security { alternatives }
}

/// A requirement that names a client certificate cannot be met if no listener asks for one.
pub fn certificates_are_asked_for(check: &mut Check<'_>, raw: &Raw) {
    let asks = raw.listeners.items().any(|(index, listener)| {
        let key = join(&place("listeners", index), "tls");
        listener.tls.as_ref().is_some_and(|tls| {
            !matches!(tls.client_certificates, RawClientCertificates::Off)
                || check.was_given_up_whole(&join(&key, "client_certificates"))
        }) || check.was_given_up_whole(&key)
    });
    if asks {
        return;
    }
    let general = raw.security.iter().map(|security| ("security".to_owned(), security));
    let own = raw.agents.items().filter_map(|(index, agent)| {
        let key = join(&place("agents", index), "security");
        Some((key, agent.security.as_ref()?))
    });
    let envelope = raw.envelope.as_ref().and_then(|envelope| envelope.security.as_ref());
    let envelope = envelope.map(|security| ("envelope.security".to_owned(), security));
    for (key, requirement) in general.chain(own).chain(envelope) {
        for (index, alternative) in requirement.items() {
            for (scheme, _) in alternative.items() {
                let scheme_of = raw.security_schemes.item(scheme);
                let is_certificate = scheme_of.is_some_and(|scheme| {
                    scheme.kind == Some(RawSchemeType::MutualTls)
                        || scheme.sender_constraint == Some(RawSenderConstraint::Mtls)
                });
                if is_certificate {
                    check.problem(
                        &join(&place(&key, index), scheme),
                        "needs a client certificate, but no listener asks for one; set `listeners[].tls.client_certificates`",
                    );
                }
            }
        }
    }
}
