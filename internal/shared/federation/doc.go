// SPDX-License-Identifier: Apache-2.0

// Package federation is what ktsn-federator and `ktsn fed` say to each other over HTTP: the bodies of requests and answers, and the names
// that both put on objects of the hub. The tags doc, enum, pattern and the like go into the OpenAPI document, by which the federator
// checks requests.
package federation
