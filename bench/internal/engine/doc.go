// SPDX-License-Identifier: Apache-2.0

// Package engine turns a profile into measurements and measurements into figures. It knows nothing of how a run is
// made: that is a Target's (package netnstarget makes one of network namespaces).
//
//	profile ──► plan ──► engine ──► target: one run after the other
//	                       │
//	                       ▼
//	                     store        one file a run, written at once, with every message
//	                       │
//	                       ▼
//	            collect: figures, ratios ──► report, comparison, assertions
//
// The order of a plan depends on its profile alone, so a bench that was interrupted goes on where it was: what the
// store has is not measured again. Everything that is reported is computed from the store, whether the bench has
// just ended, was interrupted, or was made elsewhere.
//
// What each file does: profile, parse and shipped (what is asked), workload (what there is to ask for), plan (the
// order of runs), engine and progress (one run after the other), store (what is kept), collect, samples, ratios and
// figures (what it means), assert and compare (what is asked about it).
package engine
