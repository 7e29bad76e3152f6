// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// described keeps what it is asked to register.
type described struct {
	prometheus.Registerer
	names []string
}

var fullName = regexp.MustCompile(`fqName: "([^"]+)"`)

func (d *described) Register(collector prometheus.Collector) error {
	descriptions := make(chan *prometheus.Desc, 10)
	collector.Describe(descriptions)
	close(descriptions)
	for description := range descriptions {
		d.names = append(d.names, fullName.FindStringSubmatch(description.String())[1])
	}
	return nil
}

func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/reference/metrics.md")
	testlab.Must(t, err)
	all := &described{}
	if _, err := New(all); err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, name := range regexp.MustCompile("`(ktsn_[a-z_]+)`").FindAllStringSubmatch(string(text), -1) {
		documented[name[1]] = true
	}
	for _, name := range all.names {
		if !documented[name] {
			t.Errorf("docs/reference/metrics.md says nothing of %s", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/reference/metrics.md names %s, which there is not", name)
	}
	if dashboard, err := os.ReadFile("../../../../charts/kubernetsn/files/dashboard.json"); err != nil {
		t.Error(err)
	} else {
		for _, name := range regexp.MustCompile(`ktsn_[a-z_]+`).FindAllString(string(dashboard), -1) {
			if base := strings.TrimSuffix(name, "_bucket"); !strings.Contains(strings.Join(all.names, " ")+" ", base+" ") {
				t.Errorf("the dashboard asks for %s, which there is not", name)
			}
		}
	}
}
