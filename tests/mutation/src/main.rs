//! Lists the mutants of Rust source files: small changes of a check. Each is a pair of texts to insert before and after
//! a piece of the file, so that one binary contains all mutants.
//!
//! Prints one JSON object on each line: `file`, `line`, `function`, `change`, `start` and `end` (bytes of the
//! file), `before` and `after`. `M()` in these texts is true if the mutant is the chosen one.

use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Expr, ExprMethodCall, ImplItemFn, ItemConst, ItemFn, ItemImpl, ItemMod,
    ItemStatic, Lit, Local, Pat, ReturnType, Signature, Stmt, Type, UnOp,
};

/// Methods that return a boolean.
const ASKS: &[&str] = &[
    "contains",
    "contains_key",
    "contains_value",
    "ends_with",
    "eq",
    "eq_ignore_ascii_case",
    "exists",
    "is_absolute",
    "is_ascii",
    "is_cancelled",
    "is_dir",
    "is_empty",
    "is_file",
    "is_finished",
    "is_plain_file",
    "is_relative",
    "is_symlink",
    "starts_with",
];
/// Methods, each with a replacement of the same type.
const SWAPS: &[(&str, &str)] = &[
    ("all", "any"),
    ("any", "all"),
    ("is_err", "is_ok"),
    ("is_none", "is_some"),
    ("is_none_or", "is_some_and"),
    ("is_ok", "is_err"),
    ("is_some", "is_none"),
    ("is_some_and", "is_none_or"),
    ("max", "min"),
    ("min", "max"),
];

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("a source file");
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut finder = Finder { path: &path, text: &text, within: Vec::new() };
        finder.visit_file(&file);
    }
}

struct Finder<'a> {
    path: &'a str,
    text: &'a str,
    /// The type and function that contain the current code.
    within: Vec<String>,
}

impl Finder<'_> {
    fn raw(&self, span: Span) -> &str {
        &self.text[span.byte_range()]
    }

    fn add(&self, span: Span, range: Range<usize>, change: &str, before: &str, after: &str) {
        let mutant = serde_json::json!({
            "file": self.path, "line": span.start().line, "function": self.within.join("::"),
            "change": change, "start": range.start, "end": range.end,
            "before": before, "after": after,
        });
        println!("{mutant}");
    }

    /// Adds a mutant with another expression of the same type.
    fn replace(&self, span: Span, change: &str, other: &str) {
        let before = format!("(if M() {{ {other} }} else {{ ");
        self.add(span, span.byte_range(), change, &before, " })");
    }

    fn negate(&self, span: Span, change: &str) {
        self.add(span, span.byte_range(), change, "((", ") ^ M())");
    }

    fn always(&self, span: Span, change: &str) {
        self.add(span, span.byte_range(), change, "(M() || (", "))");
    }

    fn never(&self, span: Span, change: &str) {
        self.add(span, span.byte_range(), change, "(!M() && (", "))");
    }

    /// Adds mutants in which a condition always or never holds. In a chain with `let`, changes only the other parts.
    fn condition(&self, condition: &Expr) {
        match condition {
            Expr::Let(_) => {}
            Expr::Binary(binary) if has_let(condition) => {
                self.condition(&binary.left);
                self.condition(&binary.right);
            }
            _ => {
                let shown = self.shown(condition.span());
                self.always(condition.span(), &format!("if {shown} -> if true"));
                self.never(condition.span(), &format!("if {shown} -> if false"));
            }
        }
    }

    fn shown(&self, span: Span) -> String {
        let words: Vec<_> = self.raw(span).split_whitespace().collect();
        let text = words.join(" ");
        if text.chars().count() > 70 {
            text.chars().take(70).chain(['…']).collect()
        } else {
            text
        }
    }

    /// Adds mutants that replace the body of a function by a value.
    fn function(&self, signature: &Signature, body: &syn::Block) {
        let value = match &signature.output {
            ReturnType::Default => vec![""],
            ReturnType::Type(_, of) => values(of),
        };
        let at = body.brace_token.span.open().byte_range().end;
        for value in value {
            let change = format!("return {value} at once").replace("  ", " ");
            let before = format!(" if M() {{ return {value}; }} ");
            self.add(signature.span(), at..at, &change, &before, "");
        }
    }

    fn binary(&self, binary: &syn::ExprBinary) {
        let (left, right) = (self.raw(binary.left.span()), self.raw(binary.right.span()));
        let span = binary.span();
        let shown = self.shown(span);
        let other = |operator: &str| {
            let change = format!("{shown} -> {operator}");
            self.replace(span, &change, &format!("{left} {operator} {right}"));
        };
        match binary.op {
            BinOp::And(_) | BinOp::Or(_) if has_let(&binary.left) || has_let(&binary.right) => {}
            BinOp::And(_) | BinOp::Or(_) | BinOp::BitOr(_) | BinOp::BitAnd(_) => {
                self.replace(span, &format!("{shown} -> the left only"), left);
                self.replace(span, &format!("{shown} -> the right only"), right);
            }
            BinOp::Lt(_) => other("<="),
            BinOp::Le(_) => other("<"),
            BinOp::Gt(_) => other(">="),
            BinOp::Ge(_) => other(">"),
            BinOp::Eq(_) | BinOp::Ne(_) => self.negate(span, &format!("not ({shown})")),
            BinOp::Add(_) => other("-"),
            BinOp::Sub(_) => other("+"),
            BinOp::Mul(_) => other("+"),
            BinOp::Div(_) | BinOp::Rem(_) => other("*"),
            BinOp::AddAssign(_) => other("-="),
            BinOp::SubAssign(_) => other("+="),
            _ => {}
        }
    }

    fn method(&self, call: &ExprMethodCall) {
        let name = call.method.to_string();
        let span = call.span();
        let shown = self.shown(span);
        if ASKS.contains(&name.as_str()) {
            self.negate(span, &format!("not ({shown})"));
        }
        let receiver = self.raw(call.receiver.span());
        let from_dot = |other: &str| format!("{receiver}.{other}");
        if let Some((_, other)) = SWAPS.iter().find(|(known, _)| *known == name) {
            let rest = &self.text[call.method.span().byte_range().end..span.byte_range().end];
            self.replace(
                span,
                &format!("{shown} -> {other}"),
                &from_dot(&format!("{other}{rest}")),
            );
        }
        match (name.as_str(), call.args.first()) {
            ("filter" | "take_while", Some(Expr::Closure(closure))) => {
                self.always(closure.body.span(), &format!("{shown} -> everything"));
            }
            ("take", Some(_)) => {
                let other = from_dot("take(usize::MAX.try_into().unwrap())");
                self.replace(span, &format!("{shown} -> without end"), &other);
            }
            _ => {}
        }
    }

    fn arms(&self, arms: &[Arm]) {
        let Some((last, others)) = arms.split_last() else { return };
        let is_rest = last.guard.is_none()
            && match &last.pat {
                Pat::Wild(_) => true,
                // Syntax does not distinguish `None` from a variable, but a variable begins in lower case.
                Pat::Ident(name) => name.ident.to_string().starts_with(char::is_lowercase),
                _ => false,
            };
        for arm in others {
            match &arm.guard {
                Some((_, guard)) => {
                    let shown = self.shown(guard.span());
                    self.always(guard.span(), &format!("the guard {shown} -> true"));
                    self.never(guard.span(), &format!("the guard {shown} -> false"));
                }
                None if is_rest => {
                    let end = arm.pat.span().byte_range().end;
                    let change = format!("without the arm {}", self.shown(arm.pat.span()));
                    self.add(arm.pat.span(), end..end, &change, " if !M()", "");
                }
                None => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !is_left_out(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if !is_left_out(&item.attrs) {
            let name = self.raw(item.self_ty.span());
            self.within.push(name.split('<').next().unwrap_or(name).to_owned());
            visit::visit_item_impl(self, item);
            self.within.pop();
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        if !is_left_out(&item.attrs) && item.sig.constness.is_none() {
            self.within.push(item.sig.ident.to_string());
            self.function(&item.sig, &item.block);
            visit::visit_item_fn(self, item);
            self.within.pop();
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_left_out(&item.attrs) && item.sig.constness.is_none() {
            self.within.push(item.sig.ident.to_string());
            self.function(&item.sig, &item.block);
            visit::visit_impl_item_fn(self, item);
            self.within.pop();
        }
    }

    // Constants are evaluated at compile time, so a mutant in them cannot be chosen at run time.
    fn visit_item_const(&mut self, _: &'ast ItemConst) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_item_static(&mut self, _: &'ast ItemStatic) {}
    fn visit_type(&mut self, _: &'ast Type) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }
    fn visit_local(&mut self, local: &'ast Local) {
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            if let Some((_, diverges)) = &init.diverge {
                self.visit_expr(diverges);
            }
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expression, Some(semicolon)) = statement
            && is_action(expression)
        {
            let range = expression.span().byte_range().start..semicolon.span().byte_range().end;
            let change = format!("without {}", self.shown(expression.span()));
            self.add(expression.span(), range, &change, "if !M() { ", " }");
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        match expression {
            Expr::Binary(binary) => self.binary(binary),
            Expr::MethodCall(call) => self.method(call),
            Expr::Match(found) => self.arms(&found.arms),
            Expr::If(found) => self.condition(&found.cond),
            Expr::While(found) => self.condition(&found.cond),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Not(_)) => {
                let shown = self.shown(unary.span());
                let inner = self.raw(unary.expr.span());
                self.replace(unary.span(), &format!("{shown} -> without the !"), inner);
            }
            Expr::Macro(found) if found.mac.path.is_ident("matches") => {
                self.negate(found.span(), &format!("not ({})", self.shown(found.span())));
            }
            Expr::Lit(found) if matches!(found.lit, Lit::Bool(_)) => {
                self.negate(found.span(), &format!("not {}", self.raw(found.span())));
            }
            _ => {}
        }
        visit::visit_expr(self, expression);
    }
}

/// Returns values of this type that a function could return without doing anything.
fn values(of: &Type) -> Vec<&'static str> {
    let Type::Path(path) = of else {
        return if matches!(of, Type::Tuple(tuple) if tuple.elems.is_empty()) {
            vec![""]
        } else {
            vec![]
        };
    };
    let Some(last) = path.path.segments.last() else { return Vec::new() };
    let first = match &last.arguments {
        syn::PathArguments::AngleBracketed(given) => given.args.first(),
        _ => None,
    };
    let inner = match first {
        Some(syn::GenericArgument::Type(inner)) => Some(inner),
        _ => None,
    };
    match last.ident.to_string().as_str() {
        "bool" => vec!["true", "false"],
        "Option" => vec!["None"],
        "Vec" => vec!["Vec::new()"],
        "Result" => match inner {
            Some(Type::Tuple(tuple)) if tuple.elems.is_empty() => vec!["Ok(())"],
            Some(Type::Path(path)) if path.path.is_ident("bool") => vec!["Ok(true)", "Ok(false)"],
            Some(Type::Path(path)) => match path.path.segments.last() {
                Some(last) if last.ident == "Option" => vec!["Ok(None)"],
                Some(last) if last.ident == "Vec" => vec!["Ok(Vec::new())"],
                _ => vec![],
            },
            _ => vec![],
        },
        _ => vec![],
    }
}

/// Returns whether a statement has a side effect.
fn is_action(expression: &Expr) -> bool {
    match expression {
        Expr::Call(_) | Expr::MethodCall(_) | Expr::Await(_) => true,
        Expr::Try(tried) => is_action(&tried.expr),
        Expr::Assign(assigned) => matches!(*assigned.left, Expr::Field(_) | Expr::Index(_)),
        _ => false,
    }
}

fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// Returns whether an item belongs to tests or fuzzers.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.meta.require_list().map(|list| list.tokens.to_string());
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && condition.is_ok_and(|condition| ["test", "fuzzing"].contains(&&*condition)))
    })
}
