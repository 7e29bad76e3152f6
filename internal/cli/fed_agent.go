// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/kubernetsn/kubernetsn/internal/shared/federation"
)

// defaultAgentImage is Karmada's image.
const defaultAgentImage = "docker.io/karmada/karmada-agent:v1.18.2"

//go:embed fed_agent.yaml fed_rights.yaml
var agentManifestTexts embed.FS

var agentManifest = template.Must(template.ParseFS(agentManifestTexts, "*.yaml"))

// agentFiles are the files for a cluster's agent.
type agentFiles struct {
	kubeconfig, manifest, image string
	rights                      memberRights
	// keepRights leaves rights out of the manifest: the agent keeps those that it has in the cluster.
	keepRights bool
}

// add adds the options to a command.
func (f *agentFiles) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&f.kubeconfig, "agent-kubeconfig", "", "`FILE` to write: a kubeconfig of karmada-agent for the hub, with a new key")
	flags.StringVar(&f.manifest, "agent-manifest", "", "`FILE` to write, for kubectl apply in the cluster: karmada-agent, with a new key")
	flags.StringVar(&f.image, "agent-image", defaultAgentImage, "`IMAGE` of karmada-agent in that manifest")
	f.rights.add(flags)
}

func (f *agentFiles) none() bool { return f.kubeconfig == "" && f.manifest == "" }

// write writes the files, whose contents have a key in them.
func (f *agentFiles) write(cluster string, kubeconfig []byte) error {
	if f.kubeconfig != "" {
		if err := writePrivate(f.kubeconfig, kubeconfig); err != nil {
			return fmt.Errorf("write the agent's kubeconfig: %w", err)
		}
	}
	if f.manifest == "" {
		return nil
	}
	var rights *rightsData
	if !f.keepRights {
		var err error
		if rights, err = f.rights.complete(); err != nil {
			return err
		}
	}
	sum := sha256.Sum256(kubeconfig)
	image, err := json.Marshal(f.image) // which is a text of YAML
	if err != nil {
		return fmt.Errorf("write the manifest of the agent: %w", err)
	}
	var text bytes.Buffer
	if err := agentManifest.ExecuteTemplate(&text, "fed_agent.yaml", map[string]any{
		"Rights": rights, "Cluster": cluster, "Image": string(image), "Kubeconfig": base64.StdEncoding.EncodeToString(kubeconfig), "Sum": "sha256-" + hex.EncodeToString(sum[:8]),
	}); err != nil {
		return fmt.Errorf("write the manifest of the agent: %w", err)
	}
	if err := writePrivate(f.manifest, text.Bytes()); err != nil {
		return fmt.Errorf("write the manifest of the agent: %w", err)
	}
	return nil
}

// print prints the next steps with the files.
func (f *agentFiles) print(out io.Writer, cluster string) {
	if f.kubeconfig != "" {
		fmt.Fprintf(out, agentSteps, f.kubeconfig, cluster, f.kubeconfig, cluster)
	}
	if f.manifest != "" {
		rights := "It does not change the agent's rights in the cluster; `ktsn fed rights` prints rights for an agent without any."
		if !f.keepRights {
			rights = f.rights.String()
		}
		fmt.Fprintf(out, agentStep, f.manifest, cluster, rights, f.manifest)
	}
}

const agentStep = `%s has karmada-agent of cluster %s and its key. %s In the cluster, after the chart kubernetsn:

    kubectl apply -f %s
`

// agentSteps are the next steps with the kubeconfig. Without --report-secrets=None, the agent would give the hub credentials of the cluster.
// The controller that renews the certificate is off by default, and uses only this Secret.
const agentSteps = `%s is the kubeconfig of karmada-agent of cluster %s for the hub. In the cluster, give it to the agent by this Secret:

    kubectl create namespace karmada-system
    kubectl -n karmada-system create secret generic karmada-kubeconfig --from-file=karmada-kubeconfig=%s

` + "`ktsn fed rights`" + ` prints the rights of the agent in the cluster, including that Secret. The agent mounts the Secret at /etc/karmada, renews its certificate
there, and runs as follows.

    karmada-agent --karmada-kubeconfig=/etc/karmada/karmada-kubeconfig --cluster-name=%s --report-secrets=None --leader-elect-resource-namespace=karmada-cluster '--controllers=*,certRotation'
`

// writePrivate creates or replaces a file atomically. Only its owner can read it.
func writePrivate(file string, text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// agentKubeconfig is JSON, which is YAML.
func agentKubeconfig(cluster string, signed *federation.Certificate, key []byte) ([]byte, error) {
	encode := base64.StdEncoding.EncodeToString
	hub := map[string]any{"server": signed.Server, "certificate-authority-data": encode([]byte(signed.CA))}
	user := map[string]any{"client-certificate-data": encode([]byte(signed.Certificate)), "client-key-data": encode(key)}
	name := federation.AgentUser + cluster
	text, err := json.MarshalIndent(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "hub",
		"clusters": []any{map[string]any{"name": "hub", "cluster": hub}},
		"users":    []any{map[string]any{"name": name, "user": user}},
		"contexts": []any{map[string]any{"name": "hub", "context": map[string]any{"cluster": "hub", "user": name}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the agent's kubeconfig: %w", err)
	}
	return append(text, '\n'), nil
}
