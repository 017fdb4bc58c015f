//! Security requirements as a card states them: an OR of ANDs over named schemes (A2A 0.3 §5.5, 1.0 §4.5).

/// The name of a security scheme, as cards publish it.
pub type SchemeName = String;

/// One scheme of an AND, with the scopes that it must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeUse {
    pub scheme: SchemeName,
    pub scopes: Vec<String>,
}

/// What a caller must show. No alternatives at all means: no requirement. An empty alternative admits anonymous callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// Alternatives (OR); within one, every scheme is needed (AND).
    pub alternatives: Vec<Vec<SchemeUse>>,
}

impl Security {
    /// Nobody needs to show anything.
    pub fn is_open(&self) -> bool {
        self.alternatives.is_empty() || self.alternatives.iter().any(Vec::is_empty)
    }
}
