// SPDX-License-Identifier: Apache-2.0

// Package experiment has the measurements of a bench other than messages between talkers and listeners, one package
// each. An experiment (engine.Experiment) defines its cases, performs them with its own programs on a target (package
// netnstarget or clustertarget), and reports the results. Package engine provides order, storage and the report's page.
package experiment
