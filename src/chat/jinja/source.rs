//! What a template's text may look like before it is compiled.
//!
//! The compiler walks expressions recursively and computes constant ones at once, without a budget.

use minijinja::machinery::ast::{BinOpKind, CallArg, CompareOpKind, Expr, Macro, Stmt};
use minijinja::machinery::{Token, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind, Value};

use super::budget::{self, too_large};

/// Most bytes of a template; known ones have up to 40,000.
const LONGEST: usize = 1 << 20;
/// Most tokens between `{{` and `}}` or `{%` and `%}`: a long expression is a deep tree.
const MOST_TOKENS: usize = 2000;
/// Most `elif`s of a template: a chain of them is a deep tree.
const MOST_BRANCHES: usize = 500;
/// Most bytes of one constant that is computed from others, and of all of them.
const LARGEST_CONSTANT: usize = 64 << 10;
const ALL_CONSTANTS: usize = 16 << 20;

/// Refuses a text that would make a tree too deep to walk.
pub(super) fn check_text(text: &str, whitespace: WhitespaceConfig) -> Result<(), Error> {
    let refuse = |what: String| Err(Error::new(ErrorKind::SyntaxError, what));
    if text.len() > LONGEST {
        return refuse(format!("{} bytes; expected at most {LONGEST}", text.len()));
    }
    let (mut tokens, mut branches) = (0, 0);
    for token in tokenize(text, false, SyntaxConfig, whitespace) {
        let (token, span) = token?;
        match token {
            Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => tokens = 0,
            _ => tokens += 1,
        }
        branches += usize::from(matches!(token, Token::Ident("elif")));
        if tokens > MOST_TOKENS {
            let line = span.start_line;
            return refuse(format!("more than {MOST_TOKENS} tokens in a tag (line {line})"));
        }
    }
    if branches > MOST_BRANCHES {
        return refuse(format!("more than {MOST_BRANCHES} branches with `elif`"));
    }
    Ok(())
}

/// Refuses constant expressions that are large when computed.
pub(super) fn check_constants(tree: &Stmt<'_>) -> Result<(), Error> {
    Constants { bytes: 0 }.statement(tree)
}

/// Walks a template and computes its constants from the leaves up, each only if it is small.
struct Constants {
    /// Bytes of all so far.
    bytes: usize,
}

impl Constants {
    fn statements(&mut self, statements: &[Stmt<'_>]) -> Result<(), Error> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt<'_>) -> Result<(), Error> {
        match statement {
            Stmt::Template(s) => self.statements(&s.children),
            Stmt::EmitExpr(s) => self.expression(&s.expr),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => Ok(()),
            Stmt::ForLoop(s) => {
                self.expressions([&s.target, &s.iter].into_iter().chain(&s.filter_expr))?;
                self.statements(&s.body)?;
                self.statements(&s.else_body)
            }
            Stmt::IfCond(s) => {
                self.expression(&s.expr)?;
                self.statements(&s.true_body)?;
                self.statements(&s.false_body)
            }
            Stmt::WithBlock(s) => {
                self.expressions(s.assignments.iter().flat_map(|(a, b)| [a, b]))?;
                self.statements(&s.body)
            }
            Stmt::Set(s) => self.expressions([&s.target, &s.expr]),
            Stmt::SetBlock(s) => {
                self.expressions([&s.target].into_iter().chain(&s.filter))?;
                self.statements(&s.body)
            }
            Stmt::AutoEscape(s) => {
                self.expression(&s.enabled)?;
                self.statements(&s.body)
            }
            Stmt::FilterBlock(s) => {
                self.expression(&s.filter)?;
                self.statements(&s.body)
            }
            Stmt::Block(s) => self.statements(&s.body),
            Stmt::Import(s) => self.expressions([&s.expr, &s.name]),
            Stmt::FromImport(s) => self.expression(&s.expr),
            Stmt::Extends(s) => self.expression(&s.name),
            Stmt::Include(s) => self.expression(&s.name),
            Stmt::Macro(s) => self.macro_body(s),
            Stmt::CallBlock(s) => {
                self.expression(&s.call.expr)?;
                self.arguments(&s.call.args)?;
                self.macro_body(&s.macro_decl)
            }
            Stmt::Do(s) => {
                self.expression(&s.call.expr)?;
                self.arguments(&s.call.args)
            }
        }
    }

    fn macro_body(&mut self, body: &Macro<'_>) -> Result<(), Error> {
        self.expressions(body.args.iter().chain(&body.defaults))?;
        self.statements(&body.body)
    }

    fn expressions<'e, 's: 'e>(
        &mut self,
        expressions: impl IntoIterator<Item = &'e Expr<'s>>,
    ) -> Result<(), Error> {
        expressions.into_iter().try_for_each(|expression| self.expression(expression))
    }

    fn arguments(&mut self, arguments: &[CallArg<'_>]) -> Result<(), Error> {
        self.expressions(arguments.iter().map(|argument| match argument {
            CallArg::Pos(e) | CallArg::Kwarg(_, e) => e,
            CallArg::PosSplat(e) | CallArg::KwargSplat(e) => e,
        }))
    }

    fn expression(&mut self, expression: &Expr<'_>) -> Result<(), Error> {
        match expression {
            Expr::Var(_) | Expr::Const(_) => Ok(()),
            Expr::Slice(e) => {
                let parts = [&e.start, &e.stop, &e.step].into_iter().flatten();
                self.expressions([&e.expr].into_iter().chain(parts))
            }
            Expr::UnaryOp(e) => self.expression(&e.expr),
            Expr::BinOp(e) => {
                self.expressions([&e.left, &e.right])?;
                let (Some(left), Some(right)) = (e.left.as_const(), e.right.as_const()) else {
                    return Ok(());
                };
                self.computed(e.op, &left, &right)
            }
            Expr::Compare(e) => {
                let is_search = |op| matches!(op, CompareOpKind::In | CompareOpKind::NotIn);
                if e.ops.len() > 1 && e.ops.iter().any(|op| is_search(op.op)) {
                    let what = "`in` in a chain of comparisons; expected parentheses";
                    return Err(Error::new(ErrorKind::SyntaxError, what));
                }
                self.expressions([&e.expr].into_iter().chain(e.ops.iter().map(|op| &op.expr)))
            }
            Expr::IfExpr(e) => {
                self.expressions([&e.test_expr, &e.true_expr].into_iter().chain(&e.false_expr))
            }
            Expr::Filter(e) => {
                self.expressions(&e.expr)?;
                self.arguments(&e.args)
            }
            Expr::Test(e) => {
                self.expression(&e.expr)?;
                self.arguments(&e.args)
            }
            Expr::GetAttr(e) => self.expression(&e.expr),
            Expr::GetItem(e) => self.expressions([&e.expr, &e.subscript_expr]),
            Expr::Call(e) => {
                self.expression(&e.expr)?;
                self.arguments(&e.args)
            }
            Expr::List(e) => self.expressions(&e.items),
            Expr::Map(e) => self.expressions(e.keys.iter().chain(&e.values)),
        }
    }

    /// Accounts for an operation on constants before the compiler does it.
    fn computed(&mut self, op: BinOpKind, left: &Value, right: &Value) -> Result<(), Error> {
        let size = |value: &Value| if value.is_number() { 0 } else { budget::constant(value) };
        let times = |value: &Value| value.as_usize().unwrap_or(1).max(1);
        let (a, b) = (size(left), size(right));
        let bytes = match op {
            BinOpKind::Mul => a.saturating_mul(times(right)).max(b.saturating_mul(times(left))),
            BinOpKind::Add | BinOpKind::Concat => a.saturating_add(b),
            _ => 0,
        };
        self.bytes += bytes.min(ALL_CONSTANTS);
        if bytes > LARGEST_CONSTANT || self.bytes > ALL_CONSTANTS {
            return too_large("constants that are too large when computed".to_owned());
        }
        Ok(())
    }
}
