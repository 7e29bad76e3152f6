// SPDX-License-Identifier: Apache-2.0

package clusterkey

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
)

// successionPurpose is part of what a former key signs, so that the signature is of use for nothing else.
const successionPurpose = "kubernetsn cluster key succession v1\x00"

// maxSteps is how many former keys are told of: a cluster that was away while more keys were replaced has to pin the key by hand.
const maxSteps = 4

// Succeed makes the key that takes the place of this one, and signs it with this one. Former keys are KEY:SIGNATURE in base64 with blanks between,
// the last one first, where each signature is of the key after it.
func (p *Private) Succeed() (*Private, error) {
	next, err := New()
	if err != nil {
		return nil, err
	}
	step := p.Public().String() + ":" + base64.StdEncoding.EncodeToString(ed25519.Sign(p.key, successor(next.Public())))
	steps := slices.Insert(strings.Fields(p.Succession), 0, step)
	next.Succession = strings.Join(steps[:min(len(steps), maxSteps)], " ")
	return next, nil
}

// Succeeds tells whether a former key, or one after it, has signed this one.
func (p Public) Succeeds(former Public, succession string) bool {
	key := p
	for _, step := range strings.Fields(succession) {
		text, signed, _ := strings.Cut(step, ":")
		signer, errKey := Parse(text)
		signature, errSignature := base64.StdEncoding.DecodeString(signed)
		if errKey != nil || errSignature != nil || !ed25519.Verify(signer[:], successor(key), signature) {
			return false
		}
		if signer == former {
			return true
		}
		key = signer
	}
	return false
}

func successor(key Public) []byte { return append([]byte(successionPurpose), key[:]...) }
