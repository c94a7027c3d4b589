//! How deep an expression nests, computed from its tokens.
//!
//! It must be known before the text is parsed: recursive functions build, walk and drop the tree, and a thousand `not`
//! would overflow the stack. A row of operators nests as deep as brackets do.

use minijinja::machinery::{Token, Tokenizer};
use minijinja::syntax::SyntaxConfig;

use super::Error;
use crate::limits::EXPRESSION_DEPTH_MAX;

/// The tokens between two brackets.
#[derive(Default)]
struct Level {
    /// Operators since the last comma.
    operators: usize,
    /// The deepest bracket since the last comma.
    inner: usize,
    /// The greatest depth before a comma.
    before: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.operators + self.inner)
    }
}

pub(super) fn check(source: &str, begin: usize) -> Result<(), Error> {
    let mut tokens = Tokenizer::new(source, "<expression>", true, SyntaxConfig::default());
    let mut levels = vec![Level::default()];
    loop {
        let token = tokens.next_token().map_err(|error| Error::of_syntax(&error, begin))?;
        let Some((token, span)) = token else { return Ok(()) };
        let outside = levels.len();
        let Some(level) = levels.last_mut() else { return Ok(()) };
        match token {
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => levels.push(Level::default()),
            // A closing bracket without an opening one is refused by the parser.
            Token::ParenClose | Token::BracketClose | Token::BraceClose if outside > 1 => {
                let depth = level.depth() + 1;
                levels.pop();
                if let Some(level) = levels.last_mut() {
                    level.inner = level.inner.max(depth);
                    // `a[0][0]` and `f(x)(x)` nest to the left.
                    level.operators += 1;
                }
            }
            Token::Comma => {
                level.before = level.depth();
                (level.operators, level.inner) = (0, 0);
            }
            Token::Ident("and" | "or" | "not" | "in" | "is" | "if" | "else") => level.operators += 1,
            Token::Ident(_)
            | Token::Str(_)
            | Token::String(_)
            | Token::Int(_)
            | Token::Int128(_)
            | Token::Float(_) => {}
            _ => level.operators += 1,
        }
        let open = levels.len() - 1;
        if open + levels.iter().map(Level::depth).sum::<usize>() > EXPRESSION_DEPTH_MAX {
            let message = format!("nested deeper than {EXPRESSION_DEPTH_MAX} levels, each operator counted");
            return Err(Error { at: begin + span.start_offset as usize, message });
        }
    }
}
