// SPDX-License-Identifier: Apache-2.0

// Package experiment holds what a bench measures besides messages between talkers and listeners: one file an experiment,
// which says what cases there are (engine.Experiment), makes them with programs of its own on a target (package netnstarget or
// clustertarget), and what they mean. Package engine has the order, the folder and the page of all.
package experiment
