//! Reading shapes and binding weights: every variant of a file that must load gives the weights of
//! the plain one, every other is refused by name.

mod bind;
mod facts;
mod file;
mod model;
mod random;
mod real;
mod shape;
mod variants;
