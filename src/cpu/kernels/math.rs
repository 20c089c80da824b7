//! Elementary functions over sixteen lanes. No libm: the same bits on every instruction set.

use crate::cpu::simd::Simd;

/// `ln 2` in two parts; the high one has so few bits that `n * LN2_HI` is exact for every exponent.
const LN2_HI: f32 = 0.693_145_75;
const LN2_LO: f32 = 1.428_606_8e-6;

/// `e^x`, within 1 ulp of the exact value; 0 below -104, infinity above 88.73, NaN for NaN.
///
/// `x = n ln 2 + r`, `|r| <= ln 2 / 2`; `e^r` by its Taylor polynomial of degree 7.
#[inline(always)]
pub(crate) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    // Operands in this order let a NaN through.
    let x = s.min(s.splat(90.0), s.max(s.splat(-105.0), x));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    let r = s.fma(n, s.splat(-LN2_HI), x);
    let r = s.fma(n, s.splat(-LN2_LO), r);
    let mut p = s.splat(1.0 / 5040.0);
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = s.fma(p, r, s.splat(c));
    }
    s.scale2(p, n)
}

/// `ln(1 + u)` for `u >= 0`, finite, within 2 ulp.
///
/// `1 + u = w (1 + c / w)` with the rounding error `c` of the sum; `w = 2^k (1 + f)`;
/// `ln(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2))`, `s = f / (2 + f)` (the series of `atanh`, as in
/// fdlibm).
#[inline(always)]
pub(crate) fn log1p<S: Simd>(s: S, u: S::F) -> S::F {
    let one = s.splat(1.0);
    let w = s.add(u, one);
    // The smaller summand minus what of it arrived in w.
    let c = s.select_gt(u, one, s.sub(one, s.sub(w, u)), s.sub(u, s.sub(w, one)));
    let c = s.div(c, w);
    let (k, m) = s.split2(w);
    let f = s.sub(m, one);
    let t = s.div(f, s.add(f, s.splat(2.0)));
    let z = s.mul(t, t);
    let mut r = s.splat(2.0 / 11.0);
    for c in [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0] {
        r = s.fma(r, z, s.splat(c));
    }
    let r = s.mul(r, z);
    let square = s.mul(s.mul(f, f), s.splat(0.5));
    let low = s.fma(k, s.splat(LN2_LO), c);
    let low = s.fma(t, s.add(square, r), low);
    s.fma(k, s.splat(LN2_HI), s.add(s.sub(low, square), f))
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(one, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// `x * sigmoid(x)`, computed as `x / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn silu<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    s.div(x, s.add(one, exp(s, s.sub(s.splat(0.0), x))))
}

/// `x` where `x > 20`, else `ln(1 + e^x)`.
#[inline(always)]
pub(crate) fn softplus<S: Simd>(s: S, x: S::F) -> S::F {
    let limit = s.splat(20.0);
    // The clamp keeps log1p's argument finite in lanes that are not used.
    let small = log1p(s, exp(s, s.min(limit, x)));
    s.select_gt(x, limit, x, small)
}
