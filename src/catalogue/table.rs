//! A list of agents for a terminal.

use serde_json::Value;

/// Characters of a cell; what is longer is cut.
const WIDEST: usize = 60;

const COLUMNS: [&str; 7] = ["AGENT", "STATE", "LISTED", "NAME", "VERSIONS", "BINDINGS", "URL"];

/// `list` is what the admin listener answers. Nothing that a card says reaches the terminal as more than text.
pub fn table(list: &Value) -> String {
    let agents = list.get("agents").and_then(Value::as_array).into_iter().flatten();
    let rows = agents.map(|agent| {
        let text = |name: &str| agent.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        let of_card = |name: &str| agent.get("entry").and_then(|entry| entry.get(name));
        let texts = |name: &str| {
            let texts = of_card(name).and_then(Value::as_array).into_iter().flatten();
            let texts: Vec<&str> = texts.filter_map(Value::as_str).collect();
            if texts.is_empty() {
                "-".to_owned()
            } else {
                texts.join(",")
            }
        };
        let of_card = |name: &str| of_card(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        [
            text("agent"),
            text("state"),
            text("listed"),
            of_card("name"),
            texts("protocolVersions"),
            texts("protocolBindings"),
            of_card("url"),
        ]
        .map(|cell| plain(&cell))
    });
    let rows: Vec<[String; 7]> = [COLUMNS.map(str::to_owned)].into_iter().chain(rows).collect();
    let mut widths = [0; COLUMNS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    });
    lines.collect()
}

/// Without what a terminal would obey, and what turns the order of its characters.
fn plain(text: &str) -> String {
    let is_harmful = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut plain: String = text.replace(is_harmful, "?");
    if plain.chars().count() > WIDEST {
        plain = plain.chars().take(WIDEST - 1).collect();
        plain.push('…');
    }
    plain
}
