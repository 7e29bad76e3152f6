// SPDX-License-Identifier: Apache-2.0

package tsnnetwork

import (
	"flag"
	"io"
	"strings"
	"testing"
)

func minimumOf(arguments ...string) (*EncryptionMinimum, error) {
	made, flags := &EncryptionMinimum{}, flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	made.AddFlags(flags)
	return made, flags.Parse(arguments)
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
		made, err := minimumOf(test.arguments...)
		if err != nil {
			t.Fatal(err)
		}
		got := test.asked
		said := made.Raise(&got, test.name)
		if got != test.wants || (said != "") != (test.asked != test.wants) {
			t.Errorf("%v: %s asks for %q and has %q: %s", test.arguments, test.name, test.asked, got, said)
		}
	}
	made, err := minimumOf(some...)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"line":          {"of TSNNetwork line is None", "is Required (chart value encryption.minimumOf)", "set spec.encryption to Required"},
		"default/plant": {"of TSNService default/plant is None", "(chart value encryption.minimumOf)"},
		"other":         {"of TSNNetwork other is None", "is Preferred (chart value encryption.minimum)", "set spec.encryption to Preferred"},
	} {
		asked := "None"
		said := made.Raise(&asked, name)
		for _, text := range want {
			if !strings.Contains(said, text) {
				t.Errorf("%s: %q does not say %q", name, said, text)
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
