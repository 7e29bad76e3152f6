// SPDX-License-Identifier: Apache-2.0

package clusterkey

import (
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
)

// successionPurpose is part of the text that a former key signs, so that the signature cannot be used for anything else.
const successionPurpose = "kubernetsn cluster key succession v1\x00"

// maxSteps limits the former keys in a succession: a cluster that misses more replacements has to pin the key manually.
const maxSteps = 4

// Succeed creates the key that replaces this one, and signs it with this one. Former keys are KEY:SIGNATURE in base64, separated by spaces,
// the latest first; each signature is over the next key.
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

// Succeeds reports whether a former key has signed this one, directly or through keys in between.
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
