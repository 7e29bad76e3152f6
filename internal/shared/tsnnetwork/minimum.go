// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
)

// EncryptionMinimum is the minimum encryption of a cluster, whatever its TSNNetworks and TSNServices request: a hub writes these objects,
// but cannot set the options of the cluster's programs. The zero value and nil accept everything.
type EncryptionMinimum struct {
	defaultMinimum string
	// exceptions are indexed by the name of a TSNNetwork or by NAMESPACE/NAME of a TSNService.
	exceptions map[string]string
}

// AddFlags adds the options to a program.
func (m *EncryptionMinimum) AddFlags(flags *flag.FlagSet) {
	flags.Func("encryption-minimum", "minimum encryption `MODE` of networks and links: None (default), Preferred or Required",
		func(text string) error {
			m.defaultMinimum = text
			return checkEncryption(text)
		})
	flags.Func("encryption-minimum-of", "minimum for one TSNNetwork, or one TSNService by NAMESPACE/NAME, instead: `NAME=MODE`; can be repeated",
		func(text string) error {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" {
				return fmt.Errorf("%q: give the name of a TSNNetwork, or NAMESPACE/NAME of a TSNService, then = and the value", text)
			}
			if m.exceptions == nil {
				m.exceptions = map[string]string{}
			}
			m.exceptions[name] = value
			return checkEncryption(value)
		})
}

// encryptions are the values of spec.encryption in ascending order.
var encryptions = []string{v1alpha1.EncryptionNone, v1alpha1.EncryptionPreferred, v1alpha1.EncryptionRequired}

func checkEncryption(text string) error {
	if !slices.Contains(encryptions, text) {
		return fmt.Errorf("%q: give one of %s", text, strings.Join(encryptions, ", "))
	}
	return nil
}

// LessEncrypted reports whether a value of spec.encryption is below another; "" is None.
func LessEncrypted(value, other string) bool {
	order := func(value string) int { return slices.Index(encryptions, cmp.Or(value, v1alpha1.EncryptionNone)) }
	return order(value) < order(other)
}

// Raise raises the spec.encryption of a TSNNetwork, or of a TSNService NAMESPACE/NAME or its links, to the minimum. It returns a message for
// users if it has changed the value, else "".
func (m *EncryptionMinimum) Raise(encryption *string, name string) (text string) {
	if m == nil {
		return ""
	}
	minimum, ok := m.exceptions[name]
	value := "encryption.minimumOf"
	if !ok {
		minimum, value = m.defaultMinimum, "encryption.minimum"
	}
	requested := cmp.Or(*encryption, v1alpha1.EncryptionNone)
	if !LessEncrypted(requested, minimum) {
		return ""
	}
	*encryption = minimum
	object, effect := "TSNNetwork "+name, "does not reach clusters that use "+requested
	switch {
	case strings.Contains(name, "/"):
		object, effect = "TSNService "+name, "admits no links of a hub with "+requested
	case requested == v1alpha1.EncryptionPreferred:
		effect = "reaches clusters that use Preferred only while all nodes of the network can encrypt"
	}
	return fmt.Sprintf("spec.encryption of %s is %s, and the minimum of this cluster for it is %s (chart value %s): this cluster uses the minimum, and "+
		"%s; set spec.encryption to %s, at the hub if the hub created the object, or lower the chart value",
		object, requested, minimum, value, effect, minimum)
}
