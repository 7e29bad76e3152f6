// SPDX-License-Identifier: Apache-2.0

// Package inference quantifies the uncertainty of figures: the standard error of a mean over repetitions, the
// confidence range of a quotient of two means, and that of a ratio of percentiles by resampling (bootstrap).
package inference
