//! What an expression may read: variables and their types.

use std::fmt;

/// A type of CEL, as far as expressions here need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Known only when it is evaluated.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List(Box<Self>),
    /// With texts as keys.
    Map(Box<Self>),
    /// These members and no others.
    Object(Vec<(&'static str, Self)>),
    /// Members that must be named in the expression, of whatever types: they are kept for it.
    Open,
}

impl Type {
    pub fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    pub fn map(of: Self) -> Self {
        Self::Map(Box::new(of))
    }

    /// A value of this type may be one of the other.
    pub fn fits(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::List(one), Self::List(two)) | (Self::Map(one), Self::Map(two)) => one.fits(two),
            _ => self == other,
        }
    }

    /// The type of what is of one of the two.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (one, two) if one == two => one,
            (Self::List(one), Self::List(two)) => Self::list(one.or(*two)),
            (Self::Map(one), Self::Map(two)) => Self::map(one.or(*two)),
            _ => Self::Dyn,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(of) => write!(f, "list({of})"),
            Self::Map(of) => write!(f, "map(string, {of})"),
            Self::Object(_) | Self::Open => f.write_str("object"),
        }
    }
}

/// The variables of one kind of expression.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(super) variables: Vec<(&'static str, Type)>,
}

impl Scope {
    /// What a rule of `policy.allow` reads of a call.
    pub fn policy() -> Self {
        let principal = Type::Object(vec![
            ("id", Type::Text),
            ("name", Type::Text),
            ("issuer", Type::Text),
            ("anonymous", Type::Bool),
            ("schemes", Type::list(Type::Text)),
            ("scopes", Type::list(Type::Text)),
            ("groups", Type::list(Type::Text)),
            ("claims", Type::Open),
        ]);
        let task = Type::Object(vec![
            ("id", Type::Text),
            ("context", Type::Text),
            ("references", Type::list(Type::Text)),
            ("owner", Type::Text),
            ("state", Type::Text),
        ]);
        let source = Type::Object(vec![
            ("address", Type::Text),
            ("listener", Type::Text),
            ("tls", Type::Bool),
        ]);
        Self {
            variables: vec![
                ("principal", principal),
                ("agent", Type::Object(vec![("name", Type::Text)])),
                ("operation", Type::Text),
                ("generation", Type::Text),
                ("binding", Type::Text),
                ("skill", Type::Text),
                ("task", task),
                ("message", Type::Object(vec![("metadata", Type::map(Type::Dyn))])),
                ("source", source),
                ("time", Type::Timestamp),
            ],
        }
    }

    /// What a rule reads that chooses the agent: as `policy`, without what is known with the agent alone.
    pub fn front_door() -> Self {
        let mut scope = Self::policy();
        scope.variables.retain(|(name, _)| !matches!(*name, "agent" | "skill"));
        scope
    }

    /// What a mapping reads of a verified credential.
    pub fn credential() -> Self {
        let certificate = Type::Object(vec![
            ("subject", Type::Text),
            ("uris", Type::list(Type::Text)),
            ("dns_names", Type::list(Type::Text)),
            ("emails", Type::list(Type::Text)),
            ("fingerprint", Type::Text),
        ]);
        Self {
            variables: vec![
                ("claims", Type::map(Type::Dyn)),
                ("attributes", Type::map(Type::list(Type::Text))),
                ("certificate", certificate),
                ("name", Type::Text),
                ("scopes", Type::list(Type::Text)),
            ],
        }
    }

    /// Only some of the variables.
    pub fn only(mut self, names: &[&str]) -> Self {
        self.variables.retain(|(name, _)| names.contains(name));
        self
    }
}
