// SPDX-License-Identifier: Apache-2.0

// Package certificate gives the webhook a certificate and the API server the means to trust it, and renews both in
// time. docs/decisions tells why it is not a library.
//
// A generation is an authority that signs one certificate and is forgotten; only its own certificate stays. All
// operators serve the certificate in the Secret, the leader renews it:
//
//	first third .. second third     | last third                           | then
//	Secret: current                 | current, next                        | next becomes current, current previous
//	trusted: current (and previous) | current, next                        | current, previous
//
// The served certificate is trusted at every moment, whichever replica serves it and however late it sees a change.
package certificate
