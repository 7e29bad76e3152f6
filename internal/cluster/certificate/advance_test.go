// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"
)

const testName = "ktsn-operator.test.svc"

// isTrusted reports whether a client that trusts a bundle accepts the certificate that a Secret has served.
func isTrusted(bundle []byte, secret map[string][]byte) bool {
	served := map[string][]byte{keyAuthority: bundle, keyCertificate: secret[keyCertificate], keyKey: secret[keyKey]}
	return validFrom(served, "", testName, time.Now()) != nil
}

func mustAdvance(t *testing.T, name string, secret map[string][]byte, trusted []byte) (after map[string][]byte, bundle []byte) {
	t.Helper()
	after, bundle, err := advance(name, secret, trusted)
	if err != nil {
		t.Fatal(err)
	}
	return after, bundle
}

func TestServedCertificateIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, bundle := mustAdvance(t, testName, nil, nil)
		generations := 1
		for end := time.Now().AddDate(2, 0, 0); time.Now().Before(end); {
			time.Sleep(20 * time.Hour)
			before, trusted := secret, bundle
			secret, bundle = mustAdvance(t, testName, before, trusted)
			// A replica may still serve the previous Secret, and an API server may still have the previous bundle.
			for name, served := range map[string]map[string][]byte{"new": secret, "old": before} {
				if !isTrusted(bundle, served) || !isTrusted(trusted, served) {
					t.Fatalf("%v: the %s certificate is not trusted", time.Now(), name)
				}
			}
			if !bytes.Equal(before[keyCertificate], secret[keyCertificate]) {
				generations++
			}
		}
		if generations < 8 || generations > 14 {
			t.Errorf("there were %d certificates in two years", generations)
		}
	})
}

func TestAdvanceWaitsForTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, bundle := mustAdvance(t, testName, nil, nil)
		current := secret[keyCertificate]
		time.Sleep(validity * 3 / 4)
		secret, both := mustAdvance(t, testName, secret, bundle)
		if secret[prefixNext+keyCertificate] == nil || !bytes.Equal(secret[keyCertificate], current) {
			t.Fatal("no next certificate is prepared")
		}
		for _, step := range []struct {
			name    string
			trusted []byte
			after   time.Duration
			want    bool
		}{
			{"just published", both, time.Second, false},
			{"not published", bundle, time.Hour, false},
			{"published long ago", both, time.Second, true},
		} {
			time.Sleep(step.after)
			after, _ := mustAdvance(t, testName, secret, step.trusted)
			if served := !bytes.Equal(after[keyCertificate], current); served != step.want {
				t.Errorf("%s: served %t, want %t", step.name, served, step.want)
			}
		}
	})
}

func TestAdvanceReplacesInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, bundle := mustAdvance(t, testName, nil, nil)
		time.Sleep(validity + time.Hour)
		good, _ := mustAdvance(t, testName, nil, nil)
		other, _ := mustAdvance(t, "another.name.svc", nil, nil)
		for name, secret := range map[string]map[string][]byte{
			"garbage":      {keyCertificate: []byte("no"), keyKey: []byte("no"), keyAuthority: []byte("no")},
			"another key":  {keyCertificate: good[keyCertificate], keyKey: other[keyKey], keyAuthority: good[keyAuthority]},
			"another name": other,
			"no authority": {keyCertificate: good[keyCertificate], keyKey: good[keyKey]},
			"expired":      old,
		} {
			after, trusted := mustAdvance(t, testName, secret, bundle)
			if !isTrusted(trusted, after) {
				t.Errorf("%s: the served certificate is not trusted", name)
			}
		}
	})
}
