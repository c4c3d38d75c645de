//! Matches the arguments of a call to the parameters of a function. Never evaluates an argument.

use ruff_python_ast::{Expr, ExprCall, Parameters};

/// The value that a call passes to one parameter.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Passed<'a> {
    Argument(&'a Expr),
    /// The call passes no argument, so the default of the parameter applies.
    Default,
    /// An unpacked `*` or `**` argument of the call may contain a value for the parameter.
    Unseen,
}

/// Returns the argument that a call passes to the parameter `name`. The function receives `bound` arguments before the
/// first argument in the call, for example `self`.
pub(crate) fn argument_for<'a>(
    parameters: &Parameters,
    name: &str,
    call: &'a ExprCall,
    bound: usize,
) -> Passed<'a> {
    let keywords = &call.arguments.keywords;
    let is_named = |arg: &ruff_python_ast::Identifier| arg.as_str() == name;
    // A keyword with the name of a positional-only parameter goes to the `**` parameter instead.
    let is_positional = parameters.posonlyargs.iter().any(|of| of.name().as_str() == name);
    let mut keywords_for = keywords.iter().filter(|_| !is_positional);
    let named = keywords_for.find(|keyword| keyword.arg.as_ref().is_some_and(is_named));
    if let Some(named) = named {
        return Passed::Argument(&named.value);
    }
    let mut positional = parameters.posonlyargs.iter().chain(&parameters.args);
    let place = positional.position(|parameter| parameter.name().as_str() == name);
    let passed = &call.arguments.args;
    if let Some(place) = place.and_then(|place| place.checked_sub(bound)) {
        match passed.get(..=place).unwrap_or(passed) {
            before if before.iter().any(Expr::is_starred_expr) => return Passed::Unseen,
            [.., last] if passed.len() > place => return Passed::Argument(last),
            _ => {}
        }
    }
    let has_unpacked = !is_positional && keywords.iter().any(|keyword| keyword.arg.is_none());
    if has_unpacked { Passed::Unseen } else { Passed::Default }
}

/// Returns the positional arguments of a call that go to the `*` parameter, because no other parameter takes them. The
/// function receives `bound` arguments before the first argument in the call.
pub(crate) fn rest_of<'a>(parameters: &Parameters, call: &'a ExprCall, bound: usize) -> &'a [Expr] {
    let taken = (parameters.posonlyargs.len() + parameters.args.len()).saturating_sub(bound);
    call.arguments.args.get(taken..).unwrap_or_default()
}
