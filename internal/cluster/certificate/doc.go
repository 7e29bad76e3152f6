// SPDX-License-Identifier: Apache-2.0

// Package certificate creates the webhook's certificate and the CA bundle by which the API server trusts it, and renews both.
// client-go issues the certificates; docs/internals/decisions explains why no other library does the rest.
//
// A generation is a CA that signs one certificate; the CA's key is discarded. All operators serve the certificate in the Secret, the
// leader renews it:
//
//	first third .. second third     | last third                           | then
//	Secret: current                 | current, next                        | next becomes current, current previous
//	trusted: current (and previous) | current, next                        | current, previous
//
// The served certificate is always trusted, whichever replica serves it and however late it sees a change.
package certificate
