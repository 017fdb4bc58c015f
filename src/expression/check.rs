//! The types of an expression, found before it is evaluated.
//!
//! Whatever is `dyn` fits everywhere, and may still fail when it is evaluated.
#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what is none of the types that an operator takes is wrong, whichever it is"
)]

use std::collections::BTreeSet;

use cel::IdedExpr;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, SourceInfo, operators};
use ipnet::IpNet;

use super::Error;
use super::functions::{self, Signature};
use super::scope::{Scope, Type};

/// Deepest tree. Evaluation takes up to 40 KiB of the stack a level in a development build, and threads have 2 MiB. Chains of
/// `&&` and `||` are balanced, so that hundreds of them fit.
const MAX_DEPTH: usize = 24;
/// Macros in macros: a third level could visit millions of pairs of what a caller sends.
const MAX_NESTING: usize = 2;

/// What an expression reads.
#[derive(Default)]
pub(super) struct Read {
    pub roots: BTreeSet<&'static str>,
    pub members: BTreeSet<String>,
}

pub(super) struct Checker<'a> {
    scope: &'a Scope,
    source: &'a SourceInfo,
    signatures: Vec<Signature>,
    /// Of macros, innermost last.
    locals: Vec<(String, Type)>,
    depth: usize,
    nesting: usize,
    read: Read,
}

type Checked = Result<Type, Error>;

impl<'a> Checker<'a> {
    pub(super) fn new(scope: &'a Scope, source: &'a SourceInfo) -> Self {
        Self {
            scope,
            source,
            signatures: functions::signatures(),
            locals: Vec::new(),
            depth: 0,
            nesting: 0,
            read: Read::default(),
        }
    }

    pub(super) fn read(self) -> Read {
        self.read
    }

    pub(super) fn check(&mut self, expression: &IdedExpr) -> Checked {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.wrong(expression, format!("is nested deeper than {MAX_DEPTH} levels")));
        }
        let checked = match &expression.expr {
            Expr::Unspecified => Err(self.wrong(expression, "is empty")),
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Type::Bool,
                LiteralValue::Bytes(_) => Type::Bytes,
                LiteralValue::Double(_) => Type::Double,
                LiteralValue::Int(_) => Type::Int,
                LiteralValue::Null => Type::Null,
                LiteralValue::String(_) => Type::Text,
                LiteralValue::UInt(_) => Type::Uint,
            }),
            Expr::Ident(name) => self.variable(expression, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression, call),
            Expr::Comprehension(macro_) => self.comprehension(expression, macro_),
            Expr::List(list) => {
                if !list.optional_indices.is_empty() {
                    return Err(self.wrong(expression, "optional values are not supported"));
                }
                let mut of = None;
                for element in &list.elements {
                    let next = self.check(element)?;
                    of = Some(of.map_or(next.clone(), |of: Type| of.or(next)));
                }
                Ok(Type::list(of.unwrap_or(Type::Dyn)))
            }
            Expr::Map(map) => {
                let mut of = None;
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return Err(self.wrong(expression, "messages cannot be made"));
                    };
                    self.expect(&entry.key, &Type::Text)?;
                    let next = self.check(&entry.value)?;
                    of = Some(of.map_or(next.clone(), |of: Type| of.or(next)));
                }
                Ok(Type::map(of.unwrap_or(Type::Dyn)))
            }
            Expr::Struct(_) => Err(self.wrong(expression, "messages cannot be made")),
        };
        self.depth -= 1;
        checked
    }

    fn wrong(&self, at: &IdedExpr, cause: impl Into<String>) -> Error {
        let at = self.source.offset_for(at.id).map_or(0, |(start, _)| start);
        Error::Types {
            at: usize::try_from(at).unwrap_or(usize::MAX).saturating_add(1),
            cause: cause.into(),
        }
    }

    fn expect(&mut self, expression: &IdedExpr, wanted: &Type) -> Result<(), Error> {
        let given = self.check(expression)?;
        if given.fits(wanted) {
            return Ok(());
        }
        Err(self.wrong(expression, format!("is {given} instead of {wanted}")))
    }

    fn variable(&mut self, at: &IdedExpr, name: &str) -> Checked {
        if let Some((_, of)) = self.locals.iter().rev().find(|(local, _)| local == name) {
            return Ok(of.clone());
        }
        let found = self.scope.variables.iter().find(|(known, _)| *known == name);
        let Some((known, of)) = found else {
            let known: Vec<&str> = self.scope.variables.iter().map(|(name, _)| *name).collect();
            let cause = format!("there is no `{name}` here; there are {}", known.join(", "));
            return Err(self.wrong(at, cause));
        };
        self.read.roots.insert(known);
        Ok(of.clone())
    }

    fn select(&mut self, at: &IdedExpr, select: &SelectExpr) -> Checked {
        let of = self.check(&select.operand)?;
        let member = self.member(at, of, &select.field)?;
        Ok(if select.test { Type::Bool } else { member })
    }

    fn member(&mut self, at: &IdedExpr, of: Type, name: &str) -> Checked {
        match of {
            Type::Dyn => Ok(Type::Dyn),
            Type::Map(of) => Ok(*of),
            Type::Open => {
                self.read.members.insert(name.to_owned());
                Ok(Type::Dyn)
            }
            Type::Object(members) => {
                let found = members.iter().find(|(known, _)| *known == name);
                found.map(|(_, of)| of.clone()).ok_or_else(|| {
                    let known: Vec<&str> = members.iter().map(|(name, _)| *name).collect();
                    self.wrong(
                        at,
                        format!("there is no member `{name}`; there are {}", known.join(", ")),
                    )
                })
            }
            Type::Null
            | Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Timestamp
            | Type::Duration
            | Type::List(_) => Err(self.wrong(at, format!("{of} has no members, so no `{name}`"))),
        }
    }

    fn call(&mut self, at: &IdedExpr, call: &CallExpr) -> Checked {
        match (call.func_name.as_str(), &call.target, call.args.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, None, [one, two]) => {
                self.expect(one, &Type::Bool)?;
                self.expect(two, &Type::Bool)?;
                Ok(Type::Bool)
            }
            (operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE, None, [one]) => {
                self.expect(one, &Type::Bool)?;
                Ok(Type::Bool)
            }
            (operators::CONDITIONAL, None, [condition, one, two]) => {
                self.expect(condition, &Type::Bool)?;
                let one = self.check(one)?;
                Ok(one.or(self.check(two)?))
            }
            (operators::EQUALS | operators::NOT_EQUALS, None, [one, two]) => self.compared(at, one, two, false),
            (
                operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS,
                None,
                [one, two],
            ) => self.compared(at, one, two, true),
            (
                operators::ADD | operators::SUBSTRACT | operators::MULTIPLY | operators::DIVIDE | operators::MODULO,
                None,
                [one, two],
            ) => self.computed(at, &call.func_name, one, two),
            (operators::NEGATE, None, [one]) => {
                let of = self.check(one)?;
                match of {
                    Type::Dyn | Type::Int | Type::Double => Ok(of),
                    _ => Err(self.wrong(at, format!("{of} has no sign"))),
                }
            }
            (operators::IN, None, [one, two]) => self.contained(at, one, two),
            (operators::INDEX, None, [of, index]) => self.indexed(at, of, index),
            (name, target, arguments) => {
                if name.starts_with('_') || name.starts_with('@') {
                    return Err(self.wrong(at, "optional values are not supported"));
                }
                self.function(at, name, target.as_deref(), arguments)
            }
        }
    }

    fn compared(&mut self, at: &IdedExpr, one: &IdedExpr, two: &IdedExpr, ordered: bool) -> Checked {
        let (one, two) = (self.check(one)?, self.check(two)?);
        let alike =
            one.fits(&two) || (one.is_number() && two.is_number()) || (!ordered && (is_null(&one) || is_null(&two)));
        let has_order = |of: &Type| {
            of.is_number()
                || matches!(
                    of,
                    Type::Dyn | Type::Text | Type::Bytes | Type::Bool | Type::Timestamp | Type::Duration
                )
        };
        if !alike {
            return Err(self.wrong(at, format!("{one} and {two} are never equal, and cannot be compared")));
        }
        if ordered && !(has_order(&one) && has_order(&two)) {
            return Err(self.wrong(at, format!("{one} has no order")));
        }
        Ok(Type::Bool)
    }

    fn computed(&mut self, at: &IdedExpr, operator: &str, one: &IdedExpr, two: &IdedExpr) -> Checked {
        let (one, two) = (self.check(one)?, self.check(two)?);
        let adds = operator == operators::ADD;
        let subtracts = operator == operators::SUBSTRACT;
        match (&one, &two) {
            (Type::Dyn, _) | (_, Type::Dyn) => Ok(Type::Dyn),
            (one, two) if one == two && one.is_number() => Ok(one.clone()),
            (Type::Text, Type::Text) | (Type::Bytes, Type::Bytes) if adds => Ok(one),
            (Type::List(_), Type::List(_)) if adds => Ok(one.or(two)),
            (Type::Timestamp, Type::Timestamp) if subtracts => Ok(Type::Duration),
            (Type::Timestamp | Type::Duration, Type::Duration) if adds || subtracts => Ok(one),
            (Type::Duration, Type::Timestamp) if adds => Ok(Type::Timestamp),
            _ => {
                let operator = operator.trim_matches('_');
                Err(self.wrong(at, format!("`{operator}` does not take {one} and {two}")))
            }
        }
    }

    fn contained(&mut self, at: &IdedExpr, one: &IdedExpr, two: &IdedExpr) -> Checked {
        let literal = text_of(one);
        let element = self.check(one)?;
        match self.check(two)? {
            Type::Dyn => Ok(Type::Bool),
            Type::List(of) if element.fits(&of) || (element.is_number() && of.is_number()) => Ok(Type::Bool),
            Type::Map(_) if element.fits(&Type::Text) => Ok(Type::Bool),
            Type::Open => match literal {
                Some(name) => {
                    self.read.members.insert(name.to_owned());
                    Ok(Type::Bool)
                }
                None => Err(self.unnamed(at)),
            },
            of => Err(self.wrong(at, format!("{element} is never in {of}"))),
        }
    }

    fn indexed(&mut self, at: &IdedExpr, of: &IdedExpr, index: &IdedExpr) -> Checked {
        let literal = text_of(index);
        let of = self.check(of)?;
        let by = self.check(index)?;
        match (of, literal) {
            (Type::Dyn, _) => Ok(Type::Dyn),
            (Type::List(of), _) if by.fits(&Type::Int) => Ok(*of),
            (Type::Map(of), _) if by.fits(&Type::Text) => Ok(*of),
            (of @ (Type::Object(_) | Type::Open), Some(name)) => self.member(at, of, name),
            (Type::Open, None) => Err(self.unnamed(at)),
            (of, _) => Err(self.wrong(at, format!("{of} has no element for {by}"))),
        }
    }

    fn unnamed(&self, at: &IdedExpr) -> Error {
        self.wrong(
            at,
            "claims must be named here, because only those are kept that an expression names",
        )
    }

    fn function(&mut self, at: &IdedExpr, name: &str, target: Option<&IdedExpr>, arguments: &[IdedExpr]) -> Checked {
        let is_method = target.is_some();
        if name == "dyn" && !is_method && arguments.len() == 1 {
            for argument in arguments {
                self.check(argument)?;
            }
            return Ok(Type::Dyn);
        }
        let mut given = Vec::with_capacity(arguments.len() + 1);
        for argument in target.into_iter().chain(arguments) {
            given.push(self.check(argument)?);
        }
        let named = |it: &&Signature| it.name == name && it.method == is_method;
        if !self.signatures.iter().any(|it| named(&it)) {
            return Err(self.wrong(at, format!("there is no function `{name}` that is called like this")));
        }
        let taking = |it: &&Signature| {
            let fits = |(given, wanted): (&Type, &Type)| given.fits(wanted);
            it.arguments.len() == given.len() && given.iter().zip(&it.arguments).all(fits)
        };
        let fitting = self.signatures.iter().filter(named).filter(taking);
        let result = fitting.map(|it| it.result.clone()).reduce(Type::or);
        let Some(result) = result else {
            let given: Vec<String> = given.iter().map(Type::to_string).collect();
            return Err(self.wrong(at, format!("`{name}` does not take {}", given.join(", "))));
        };
        self.constants(at, name, arguments)?;
        Ok(result)
    }

    /// What would fail at each evaluation is found here. Patterns are never a caller's.
    fn constants(&self, at: &IdedExpr, name: &str, arguments: &[IdedExpr]) -> Result<(), Error> {
        let is_sound = match (name, arguments) {
            (functions::MATCHES, [pattern]) => {
                let Some(pattern) = text_of(pattern) else {
                    return Err(self.wrong(at, "the pattern of `matches` must stand here as text"));
                };
                regex::Regex::new(pattern).is_ok()
            }
            (functions::IN_NETWORK, [network]) => text_of(network).is_none_or(|text| text.parse::<IpNet>().is_ok()),
            ("timestamp", [text]) => {
                text_of(text).is_none_or(|text| chrono::DateTime::parse_from_rfc3339(text).is_ok())
            }
            _ => true,
        };
        match is_sound {
            true => Ok(()),
            false => Err(self.wrong(at, format!("the text is not one that `{name}` can read"))),
        }
    }

    fn comprehension(&mut self, at: &IdedExpr, of: &ComprehensionExpr) -> Checked {
        let range = self.check(&of.iter_range)?;
        let element = match range {
            Type::Dyn => Type::Dyn,
            Type::List(of) => *of,
            Type::Map(_) => Type::Text,
            other => return Err(self.wrong(&of.iter_range, format!("{other} has no elements"))),
        };
        if of.iter_var2.is_some() {
            return Err(self.wrong(at, "macros with two variables are not supported"));
        }
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return Err(self.wrong(at, format!("macros stand in each other more than {MAX_NESTING} deep")));
        }
        let accumulated = self.check(&of.accu_init)?;
        self.locals.push((of.accu_var.clone(), accumulated.clone()));
        self.locals.push((of.iter_var.clone(), element));
        let steps = self.check(&of.loop_cond).and_then(|_| self.check(&of.loop_step));
        self.locals.pop();
        self.locals.pop();
        self.nesting -= 1;
        let accumulated = match (accumulated, steps?) {
            // An empty list is of nothing yet.
            (Type::List(_), Type::List(of)) => Type::List(of),
            (before, after) => before.or(after),
        };
        self.locals.push((of.accu_var.clone(), accumulated));
        let result = self.check(&of.result);
        self.locals.pop();
        result
    }
}

fn is_null(of: &Type) -> bool {
    *of == Type::Null
}

fn text_of(expression: &IdedExpr) -> Option<&str> {
    match &expression.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
