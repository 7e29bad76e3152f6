// SPDX-License-Identifier: Apache-2.0

// Package podnet calls network plugins as a container runtime on a node does whose network namespace is not this
// program's own: through libcni, with the plugins running inside that namespace. The demo and the tests attach
// their pods with it.
package podnet
