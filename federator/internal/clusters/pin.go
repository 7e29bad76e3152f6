// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// fingerprints returns the fingerprints of the certificates in PEM.
func fingerprints(text []byte) ([]string, error) {
	var all []string
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, err
		}
		sum := sha256.Sum256(block.Bytes)
		all = append(all, "sha256:"+hex.EncodeToString(sum[:]))
	}
	if len(all) == 0 {
		return nil, errors.New("there is no certificate in it")
	}
	return all, nil
}

// comparePin reports whether an authority has a fingerprint. It accepts a single certificate only: each of several
// could vouch for the cluster.
func comparePin(pinned string, ca []byte) string {
	if len(ca) == 0 {
		return federation.PinUnknown
	}
	existing, err := fingerprints(ca)
	if err == nil && len(existing) == 1 && existing[0] == pinned {
		return federation.PinMatches
	}
	return federation.PinDiffers
}
