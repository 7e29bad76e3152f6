// SPDX-License-Identifier: Apache-2.0

// Package tsnnetwork interprets TSNNetworks and pods' annotations in the same way for operator, webhook, agent and command line.
package tsnnetwork
