// SPDX-License-Identifier: Apache-2.0

// Package program is ktsn-federator: its command line, the server of its API, and the manager of its controllers. All
// replicas serve the API; one replica runs the controllers.
package program
