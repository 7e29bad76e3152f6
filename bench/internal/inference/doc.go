// SPDX-License-Identifier: Apache-2.0

// Package inference says how far figures of a measurement can be trusted: the standard error of a mean over repetitions, the
// confidence range of a quotient of two means, and that of a ratio of percentiles by resampling (bootstrap).
package inference
