// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"flag"
	"io"
	"strings"
	"testing"
)

func minimumOf(arguments ...string) (*EncryptionMinimum, error) {
	minimum, flags := &EncryptionMinimum{}, flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	minimum.AddFlags(flags)
	return minimum, flags.Parse(arguments)
}

func TestEncryptionMinimum(t *testing.T) {
	some := []string{"--encryption-minimum=Preferred", "--encryption-minimum-of=line=Required", "--encryption-minimum-of=lab=None",
		"--encryption-minimum-of=default/plant=Required"}
	for _, test := range []struct {
		arguments          []string
		name, asked, wants string
	}{
		{nil, "line", "None", "None"},
		{nil, "line", "", ""},
		{some, "other", "", "Preferred"},
		{some, "other", "None", "Preferred"},
		{some, "other", "Required", "Required"},
		{some, "line", "Preferred", "Required"},
		{some, "lab", "None", "None"},
		{some, "default/plant", "None", "Required"},
		{some, "plant", "None", "Preferred"},
	} {
		minimum, err := minimumOf(test.arguments...)
		if err != nil {
			t.Fatal(err)
		}
		got := test.asked
		text := minimum.Raise(&got, test.name)
		if got != test.wants || (text != "") != (test.asked != test.wants) {
			t.Errorf("%v: %s asks for %q and has %q: %s", test.arguments, test.name, test.asked, got, text)
		}
	}
	createdMinimum, err := minimumOf(some...)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, asked string
		want        []string
	}{
		{"line", "None", []string{"of TSNNetwork line is None", "is Required (chart value encryption.minimumOf)", "does not reach clusters that use None",
			"set spec.encryption to Required"}},
		{"line", "Preferred", []string{"reaches clusters that use Preferred only while all nodes of the network can encrypt"}},
		{"default/plant", "Preferred", []string{"of TSNService default/plant is Preferred", "(chart value encryption.minimumOf)",
			"admits no links of a hub with Preferred"}},
		{"other", "None", []string{"of TSNNetwork other is None", "is Preferred (chart value encryption.minimum)", "set spec.encryption to Preferred"}},
	} {
		asked := test.asked
		message := createdMinimum.Raise(&asked, test.name)
		for _, text := range test.want {
			if !strings.Contains(message, text) {
				t.Errorf("%s: %q does not say %q", test.name, message, text)
			}
		}
	}
	for argument, want := range map[string]string{
		"--encryption-minimum=all":              "give one of None, Preferred, Required",
		"--encryption-minimum-of=Required":      "give the name of a TSNNetwork, or NAMESPACE/NAME of a TSNService",
		"--encryption-minimum-of=line=required": "give one of",
	} {
		if _, err := minimumOf(argument); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", argument, err)
		}
	}
}
