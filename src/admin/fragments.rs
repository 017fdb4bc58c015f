//! The files of `agents_directory` as operators see them: which agents are in force from which file, and what is wrong with others.

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::Full;
use serde_json::{Value, json};

use super::json_answer;
use crate::config::{Config, Fragments};

pub(super) const PATH: &str = "/fragments";

pub(super) fn show(fragments: &Fragments, config: &Config) -> Response<Full<Bytes>> {
    let in_force = fragments.in_force.iter().map(|fragment| {
        let agents = config.agents.get(fragment.agents.clone()).unwrap_or_default();
        let names: Vec<&str> = agents.iter().map(|agent| agent.name.as_str()).collect();
        json!({ "file": fragment.file, "agents": names, "former": fragment.is_former })
    });
    let refused = fragments.refused.iter().map(|refused| {
        let problems: Vec<String> = refused.problems.iter().map(ToString::to_string).collect();
        match refused.file.as_str() {
            "" => json!({ "problems": problems }),
            file => json!({ "file": file, "problems": problems }),
        }
    });
    let shown = json!({
        "in_force": in_force.collect::<Vec<Value>>(),
        "refused": refused.collect::<Vec<Value>>(),
    });
    json_answer(StatusCode::OK, &shown)
}
