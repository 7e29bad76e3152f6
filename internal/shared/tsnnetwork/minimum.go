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

// EncryptionMinimum is the least encryption that a cluster accepts, whatever its TSNNetworks and TSNServices ask for: a hub writes those, and
// does not set the options of the cluster's programs. The zero value, and nil, accept all.
type EncryptionMinimum struct {
	all string
	// of are exceptions, by the name of a TSNNetwork or by NAMESPACE/NAME of a TSNService.
	of map[string]string
}

// AddFlags adds the options of a program.
func (m *EncryptionMinimum) AddFlags(flags *flag.FlagSet) {
	flags.Func("encryption-minimum", "the least encryption of networks and links, `WHAT`ever TSNNetworks and TSNServices ask for: None (default), Preferred or Required",
		func(text string) error {
			m.all = text
			return checkEncryption(text)
		})
	flags.Func("encryption-minimum-of", "the same for one TSNNetwork, or one TSNService by its namespace and name, instead: `NAME=WHAT`; may be given several times",
		func(text string) error {
			name, value, ok := strings.Cut(text, "=")
			if !ok || name == "" {
				return fmt.Errorf("%q: give the name of a TSNNetwork, or NAMESPACE/NAME of a TSNService, then = and the value", text)
			}
			if m.of == nil {
				m.of = map[string]string{}
			}
			m.of[name] = value
			return checkEncryption(value)
		})
}

// encryptions are the values of spec.encryption, from the least.
var encryptions = []string{v1alpha1.EncryptionNone, v1alpha1.EncryptionPreferred, v1alpha1.EncryptionRequired}

func checkEncryption(text string) error {
	if !slices.Contains(encryptions, text) {
		return fmt.Errorf("%q: give one of %s", text, strings.Join(encryptions, ", "))
	}
	return nil
}

// LessEncrypted tells whether a value of spec.encryption asks for less than another; "" is None.
func LessEncrypted(asked, other string) bool {
	order := func(value string) int { return slices.Index(encryptions, cmp.Or(value, v1alpha1.EncryptionNone)) }
	return order(asked) < order(other)
}

// Raise changes the spec.encryption of a TSNNetwork, or of a TSNService NAMESPACE/NAME or its links, to the minimum where it asks for less, and
// says so, for people; "" where it does not.
func (m *EncryptionMinimum) Raise(encryption *string, name string) (text string) {
	if m == nil {
		return ""
	}
	minimum, ok := m.of[name]
	value := "encryption.minimumOf"
	if !ok {
		minimum, value = m.all, "encryption.minimum"
	}
	asked := cmp.Or(*encryption, v1alpha1.EncryptionNone)
	if !LessEncrypted(asked, minimum) {
		return ""
	}
	*encryption = minimum
	object, effect := "TSNNetwork "+name, "does not reach clusters that use "+asked
	switch {
	case strings.Contains(name, "/"):
		object, effect = "TSNService "+name, "admits no links of a hub with "+asked
	case asked == v1alpha1.EncryptionPreferred:
		effect = "reaches clusters that use Preferred only while all nodes of the network can encrypt"
	}
	return fmt.Sprintf("spec.encryption of %s is %s, and the minimum of this cluster for it is %s (chart value %s): this cluster uses the minimum, and "+
		"%s; set spec.encryption to %s, at the hub if the hub made the object, or lower the chart value",
		object, asked, minimum, value, effect, minimum)
}
