//! Rust source as far as the rules need it: code without comments and strings, and the paths that it names.
//!
//! Not a parser. It knows the lexical grammar, `a::b::{c, d::e}` and `#[cfg(test)]`; line numbers stay what they are.

/// The code with comments, strings and characters blanked, line for line.
pub fn code(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let at = |index: usize| characters.get(index).copied().unwrap_or('\0');
    let mut out = String::with_capacity(text.len());
    let mut here = 0;
    while here < characters.len() {
        let starts_word = here == 0 || !is_word(at(here - 1));
        let end = match (at(here), at(here + 1)) {
            ('/', '/') => (here..).find(|&index| matches!(at(index), '\n' | '\0')).unwrap(),
            ('/', '*') => block_comment(&characters, here),
            ('"', _) => quoted(&characters, here + 1, '"'),
            ('b' | 'c', '"') if starts_word => quoted(&characters, here + 2, '"'),
            ('r', '"' | '#') if starts_word => raw(&characters, here + 1),
            ('b' | 'c', 'r') if starts_word && matches!(at(here + 2), '"' | '#') => raw(&characters, here + 2),
            // A character, not a lifetime.
            ('\'', '\\') => quoted(&characters, here + 1, '\''),
            ('\'', _) if at(here + 2) == '\'' => here + 3,
            _ => here,
        };
        if end == here {
            out.push(at(here));
            here += 1;
        } else {
            out.extend(
                characters[here..end]
                    .iter()
                    .map(|&character| if character == '\n' { '\n' } else { ' ' }),
            );
            here = end;
        }
    }
    out
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn quoted(characters: &[char], from: usize, quote: char) -> usize {
    let mut here = from;
    while let Some(&character) = characters.get(here) {
        match character {
            '\\' => here += 2,
            _ if character == quote => return here + 1,
            _ => here += 1,
        }
    }
    characters.len()
}

/// From the first `#` or quote; a raw identifier (`r#type`) ends at once.
fn raw(characters: &[char], from: usize) -> usize {
    let hashes = characters[from..]
        .iter()
        .take_while(|&&character| character == '#')
        .count();
    let quote = from + hashes;
    if characters.get(quote) != Some(&'"') {
        return quote;
    }
    let closes = |&here: &usize| {
        characters[here] == '"' && characters[here + 1..].iter().take_while(|&&next| next == '#').count() >= hashes
    };
    (quote + 1..characters.len())
        .find(closes)
        .map_or(characters.len(), |here| here + 1 + hashes)
}

fn block_comment(characters: &[char], from: usize) -> usize {
    let mut depth = 0;
    let mut here = from;
    while here < characters.len() {
        match (characters[here], characters.get(here + 1)) {
            ('/', Some('*')) => (depth, here) = (depth + 1, here + 2),
            ('*', Some('/')) => {
                (depth, here) = (depth - 1, here + 2);
                if depth == 0 {
                    return here;
                }
            }
            _ => here += 1,
        }
    }
    here
}

/// What ships: `code` with every item behind `#[cfg(test)]` blanked.
pub fn shipped(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        out.push_str(&rest[..at]);
        let item = &rest[at..];
        let opens = item.find('{').unwrap_or(item.len());
        let end = match item.find(';') {
            Some(end) if end < opens => end + 1,
            _ => {
                let mut depth = 0;
                item.char_indices()
                    .find(|&(_, character)| {
                        depth += i32::from(character == '{') - i32::from(character == '}');
                        character == '}' && depth == 0
                    })
                    .map_or(item.len(), |(end, _)| end + 1)
            }
        };
        out.extend(item[..end].chars().filter(|&character| character == '\n'));
        rest = &item[end..];
    }
    out + rest
}

/// A path as code names it, `use` groups taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub line: usize,
    pub segments: Vec<String>,
}

impl Named {
    /// Whether these are its first segments.
    pub fn begins(&self, path: &str) -> bool {
        path.split("::")
            .eq(self.segments.iter().map(String::as_str).take(path.split("::").count()))
    }

    /// Whether these are its last segments.
    pub fn ends(&self, path: &str) -> bool {
        let count = path.split("::").count();
        self.segments.len() >= count
            && path
                .split("::")
                .eq(self.segments[self.segments.len() - count..].iter().map(String::as_str))
    }

    pub fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// Every path of two segments or more, and what `use` names.
pub fn paths(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let mut found = Vec::new();
    let mut here = 0;
    while here < tokens.len() {
        if is_name(tokens[here].1) {
            here = path(&tokens, here, &[], &mut found);
        } else {
            here += 1;
        }
    }
    found.retain(|named| named.segments.len() > 1);
    found
}

/// Reads one path or group member behind `before`, and gives the place after it.
fn path<'a>(tokens: &[(usize, &'a str)], from: usize, before: &[&'a str], found: &mut Vec<Named>) -> usize {
    let mut segments = before.to_vec();
    let mut here = from;
    let text = |index: usize| tokens.get(index).map_or("", |token| token.1);
    let line = tokens[from].0;
    while is_name(text(here)) || text(here) == "*" && !segments.is_empty() {
        segments.push(text(here));
        here += 1;
        if text(here) != "::" {
            break;
        }
        here += 1;
        if text(here) == "{" {
            here += 1;
            while !matches!(text(here), "}" | "") {
                let is_member = is_name(text(here)) || text(here) == "*";
                here = if is_member {
                    path(tokens, here, &segments, found)
                } else {
                    here + 1
                };
                if text(here) == "as" {
                    here += 2;
                }
            }
            return here + 1;
        }
    }
    found.push(Named {
        line,
        segments: segments.iter().map(|segment| (*segment).to_owned()).collect(),
    });
    here
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Words, `::` and single other characters, each with its line.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let length = match first {
                _ if is_word(first) => rest.find(|character| !is_word(character)).unwrap_or(rest.len()),
                ':' if rest.starts_with("::") => 2,
                _ => first.len_utf8(),
            };
            let (token, after) = rest.split_at(length);
            tokens.push((index + 1, token));
            rest = after.trim_start();
        }
    }
    tokens
}

/// What is seen of a text, on the lines on which it stood.
fn sees(seen: &str, text: &str, expected: &str) {
    let words: Vec<_> = seen.split_whitespace().collect();
    assert_eq!(words.join(" "), expected, "{text}");
    assert_eq!(
        seen.matches('\n').count(),
        text.matches('\n').count(),
        "the lines of {text}"
    );
}

#[test]
fn comments_and_strings_are_no_code() {
    let check = |text: &str, expected: &str| sees(&code(text), text, expected);
    check("a // b\nc", "a c");
    check("a /* b /* c */ d */ e", "a e");
    check("a(\"b // \\\" c\", d)", "a( , d)");
    check("r#\"a \" b\"# + r\"c\\\" + d", "+ + d");
    check("br##\"a\"# b\"##; c", "; c");
    check("r#type x", "type x");
    check("('\"', '\\'', 'x', &'a str, b'\"')", "( , , , &'a str, b )");
    check("bar\"x\"", "bar");
    check("\"a\nb\"\nc", "c");
}

#[test]
fn tests_do_not_ship() {
    let check = |text: &str, expected: &str| sees(&shipped(text), text, expected);
    check("a\n#[cfg(test)]\nmod tests;\nb", "a b");
    check("a\n#[cfg(test)]\nmod tests {\n fn x() { y }\n}\nb", "a b");
    check("#[cfg(test)]\nfn x() {\n{}\n}\n#[cfg(test)]\nuse a;\nb {}", "b {}");
    check("a #[cfg(unix)] b", "a #[cfg(unix)] b");
}

#[test]
fn paths_are_taken_apart() {
    let check = |text: &str, expected: &[&str]| {
        let seen: Vec<String> = paths(text).iter().map(Named::text).collect();
        assert_eq!(seen, expected, "{text}");
    };
    check("use a::b;", &["a::b"]);
    check(
        "use a::{self, b, c::{d, e as f}, g::*};",
        &["a::self", "a::b", "a::c::d", "a::c::e", "a::g::*"],
    );
    check("use a::{\n    b,\n    c,\n};", &["a::b", "a::c"]);
    check("x.y(a::b::<c::D>(e), F::g)", &["a::b", "c::D", "F::g"]);
    check("a * b; c::d * e", &["c::d"]);
    check("impl a::B for c::D {}", &["a::B", "c::D"]);
}

#[test]
fn paths_keep_their_line() {
    let lines: Vec<usize> = paths("use a::b;\n\nc::d()").iter().map(|named| named.line).collect();
    assert_eq!(lines, [1, 3]);
}
