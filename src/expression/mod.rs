//! Expressions that users write, in the Common Expression Language (CEL): compiled and type-checked when the configuration is
//! read, evaluated for requests.
//!
//! The only place that knows the library. An expression reads the variables that its `Scope` declares, calls the functions of
//! `functions`, and nothing else; it has no loops but CEL's macros, and no state. The library finds mistakes in types only
//! while it evaluates, so that `check` finds them before. Source, depth and nesting are bounded, because evaluation recurses
//! and macros iterate over what callers send.

mod check;
mod functions;
mod scope;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::{Context, Env, ExecutionError, Program};

pub use self::scope::{Scope, Type};
pub use self::value::Value;

/// Longest source, in bytes. What does not fit is several rules.
const MAX_SOURCE: usize = 4 * 1024;
/// The parser and a refused tree recurse as deep as the source is long.
const STACK: usize = 16 * 1024 * 1024;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(functions::environment()));

/// Where an expression is wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("is longer than {MAX_SOURCE} bytes")]
    TooLong,
    #[error("is no expression: {0}")]
    Syntax(String),
    #[error("at character {at}: {cause}")]
    Types { at: usize, cause: String },
    #[error("gives {given} instead of {wanted}")]
    Result { given: String, wanted: String },
    #[error("cannot be compiled: no thread could be started")]
    Thread,
}

/// Why an evaluation gave nothing. Says nothing of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    #[error("a member or a variable is missing")]
    Missing,
    #[error("a value has another type than is needed")]
    Type,
    #[error("a value is out of range")]
    Range,
    #[error("a function failed")]
    Function,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Expression(Arc<Compiled>);

struct Compiled {
    source: String,
    program: Program,
    /// The variables that it reads.
    roots: Vec<&'static str>,
    /// The members of open objects that it reads.
    members: BTreeSet<String>,
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.0.source)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Eq for Expression {}

impl Expression {
    /// `wanted` is what it must give.
    pub fn compile(source: &str, scope: &Scope, wanted: &Type) -> Result<Self, Error> {
        if source.len() > MAX_SOURCE {
            return Err(Error::TooLong);
        }
        let compiled = std::thread::scope(|threads| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            let compiling = thread.spawn_scoped(threads, || Compiled::new(source, scope, wanted));
            let compiling = compiling.map_err(|_| Error::Thread)?;
            compiling.join().map_err(|_| Error::Thread)?
        })?;
        Ok(Self(Arc::new(compiled)))
    }

    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether it reads this variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.0.roots.contains(&variable)
    }

    pub fn reads_only(&self, variables: &[&str]) -> bool {
        self.0.roots.iter().all(|root| variables.contains(root))
    }

    /// The members that it reads of objects whose members only it names (`Type::Open`).
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.0.members.iter().map(String::as_str)
    }

    /// `variables` is asked once for each variable that the expression reads.
    pub fn evaluate(&self, variables: impl Fn(&str) -> Option<Value>) -> Result<Value, Failure> {
        let mut context = Context::with_env(ENVIRONMENT.clone());
        for root in &self.0.roots {
            if let Some(value) = variables(root) {
                context.add_variable_from_value(*root, value.0);
            }
        }
        match self.0.program.execute(&context) {
            Ok(value) => Ok(Value(value)),
            Err(error) => Err(Failure::from(error)),
        }
    }
}

impl Compiled {
    fn new(source: &str, scope: &Scope, wanted: &Type) -> Result<Self, Error> {
        let program = ENVIRONMENT.compile(source).map_err(|errors| {
            let first = errors.errors.first();
            let text = first.map_or_else(String::new, |error| error.msg.replace(char::is_control, " "));
            Error::Syntax(text)
        })?;
        let mut checker = check::Checker::new(scope, program.source_info());
        let given = checker.check(program.expression())?;
        if !given.fits(wanted) {
            return Err(Error::Result {
                given: given.to_string(),
                wanted: wanted.to_string(),
            });
        }
        let check::Read { roots, members } = checker.read();
        Ok(Self {
            source: source.to_owned(),
            program,
            roots: roots.into_iter().collect(),
            members,
        })
    }
}

impl From<ExecutionError> for Failure {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the library's, which may have others by its next version"
    )]
    fn from(error: ExecutionError) -> Self {
        match error {
            ExecutionError::NoSuchKey(_) | ExecutionError::UndeclaredReference(_) => Self::Missing,
            ExecutionError::FunctionError { .. } => Self::Function,
            ExecutionError::DivisionByZero(_)
            | ExecutionError::RemainderByZero(_)
            | ExecutionError::Overflow(..)
            | ExecutionError::IndexOutOfBounds(_) => Self::Range,
            _ => Self::Type,
        }
    }
}
