//! The GGUF reader and writer: formats it must accept, files it must refuse, and how.

mod fields;
mod format;
mod fuzz;
mod hostile;
mod raw;
mod real;
mod split;
