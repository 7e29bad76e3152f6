// SPDX-License-Identifier: Apache-2.0

// Package engine turns a profile into measurements and measurements into figures. A Target performs the runs (package
// netnstarget has one with network namespaces).
//
//	profile ──► plan ──► engine ──► target: one run after the other
//	                       │
//	                       ▼
//	                     store        one file per run, written at once, with every message
//	                       │
//	                       ▼
//	            collect: figures, ratios ──► report, comparison, assertions
//
// The order of a plan depends only on its profile, so an interrupted bench can be continued: runs in the store are not
// repeated. All results are computed from the store, whether the bench has just ended, was interrupted, or ran
// elsewhere.
//
// The files: profile, parse and shipped (the request), workload (the choices), plan (the order of runs), runner and
// progress (performing them), store (the data), collect, samples, ratios and figures (the results), assert and compare
// (questions about them).
package engine
