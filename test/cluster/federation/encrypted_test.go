// SPDX-License-Identifier: Apache-2.0

package federation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kubernetsn/kubernetsn/api/v1alpha1"
	"github.com/kubernetsn/kubernetsn/internal/node/xfrm"
	"github.com/kubernetsn/kubernetsn/internal/shared/clusterkey"
)

// secretService returns a TSNService of the hub whose links require encryption.
func secretService(namespace string) string {
	return strings.Replace(service(namespace, "secret", "10.62.0.0/16"), "spec: {", "spec: {encryption: Required, ", 1)
}

// encrypts tests a link between clusters that requires encryption. If the machine's kernel has no ESP, nothing is
// plugged, and the hub reports for both ends which node lacks what; if it has ESP, the client starts. Each cluster's
// signatures for its node reach the other unchanged either way.
func (l *acrossClusters) encrypts(ctx context.Context, t *testing.T) {
	lacks := xfrm.Try()
	t.Logf("what the kernel lacks: %v", lacks)
	l.deploy(ctx, "vault", l.west, "--endpoint", "secret=line")
	await(ctx, t, l.west.runs(l.namespace, "vault", 1))
	l.deploy(ctx, "safe", l.east, "--client", "secret=bus0")
	var link v1alpha1.TSNLink
	await(ctx, t, func(ctx context.Context) (err error) {
		link, err = l.secretAt(ctx, hub)
		return errors.Join(err, saysEncryption(&link, lacks))
	})
	t.Logf("the hub says of the ends' nodes %+v and %+v, and %+v", link.Spec.Client.NodeKeys, link.Spec.Endpoint.NodeKeys, link.Status.Conditions)
	for _, at := range []*place{l.east, l.west} {
		await(ctx, t, func(ctx context.Context) error {
			link, err := l.secretAt(ctx, at)
			return errors.Join(err, l.verifies(ctx, at, &link, lacks == nil))
		})
	}
	if lacks == nil {
		await(ctx, t, l.east.runs(l.namespace, "safe", 1))
	} else {
		l.saysAtHub(ctx, t)
	}
	l.f.run(ctx, "delete", l.namespace+"/safe")
	l.f.run(ctx, "delete", l.namespace+"/vault")
}

// secretAt returns the link that requires encryption, as a place has it.
func (l *acrossClusters) secretAt(ctx context.Context, at *place) (v1alpha1.TSNLink, error) {
	links, err := at.links(ctx, l.namespace, "secret")
	if err != nil || len(links) != 1 {
		return v1alpha1.TSNLink{}, errors.Join(err, fmt.Errorf("%s has %d links of service secret", at.Name, len(links)))
	}
	return links[0], nil
}

// saysEncryption checks the conditions of both ends.
func saysEncryption(link *v1alpha1.TSNLink, lacks error) error {
	for kind, end := range map[string]*v1alpha1.LinkEnd{v1alpha1.ConditionClientPlugged: &link.Spec.Client, v1alpha1.ConditionEndpointPlugged: &link.Spec.Endpoint} {
		status, text := metav1.ConditionTrue, "frames to the other node are encrypted"
		if lacks != nil {
			status, text = metav1.ConditionFalse, "the service requires encryption, and node "+end.Node+" cannot encrypt: "+lacks.Error()
		}
		if condition := meta.FindStatusCondition(link.Status.Conditions, kind); condition == nil || condition.Status != status || !strings.Contains(condition.Message, text) {
			return fmt.Errorf("%s of the link is %+v, want %s: %s", kind, condition, status, text)
		}
	}
	return nil
}

// verifies checks that a member trusts both ends: by its own key, and by the other cluster's key, which its operator
// has pinned.
func (l *acrossClusters) verifies(ctx context.Context, at *place, link *v1alpha1.TSNLink, haveKeys bool) error {
	pins, err := at.client.CoreV1().ConfigMaps("kubernetsn-system").Get(ctx, v1alpha1.ClusterKeyPins, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s: %w", at.Name, err)
	}
	for _, end := range []*v1alpha1.LinkEnd{&link.Spec.Client, &link.Spec.Endpoint} {
		if end.NodeKeys == nil || end.NodeKeys.CannotEncrypt == haveKeys || (len(end.NodeKeys.Keys) > 0) != haveKeys {
			return fmt.Errorf("%s: of node %s of %s the link says %+v", at.Name, end.Node, end.Cluster, end.NodeKeys)
		}
		if end.Cluster == at.as {
			continue // its own key, which is pinned nowhere
		}
		pin, err := clusterkey.ParsePin(pins.Data[end.Cluster])
		if err == nil {
			err = pin.Key.Verify(v1alpha1.LinkNetwork, clusterkey.LinkNode(end.Node, end.NodeAddress, end.NodeKeys))
		}
		if err != nil {
			return fmt.Errorf("%s does not believe what is said of node %s of %s: %w", at.Name, end.Node, end.Cluster, err)
		}
	}
	return nil
}

// saysAtHub checks the messages for users of the hub, if nodes cannot encrypt.
func (l *acrossClusters) saysAtHub(ctx context.Context, t *testing.T) {
	t.Helper()
	for command, want := range map[string][]string{
		"links secret -n " + l.namespace: {"0 of 1 clients linked", "no: the service requires encryption, and node ", " cannot encrypt: "},
		"where " + l.namespace + "/safe": {"secret bus0 to " + l.west.as + "/" + l.namespace + "/vault-", "(not up)"},
	} {
		await(ctx, t, func(ctx context.Context) error {
			output, err := l.f.try(ctx, strings.Fields(command)...)
			for _, text := range want {
				if err == nil && !strings.Contains(output, text) {
					err = fmt.Errorf("%s says %s, want %q", command, output, text)
				}
			}
			return err
		})
		t.Logf("%s says:\n%s", command, l.f.run(ctx, strings.Fields(command)...))
	}
	pods := l.east.pods(ctx, t, l.namespace, "safe")
	for i := range pods {
		if states := pods[i].Status.ContainerStatuses; len(states) > 0 && states[0].State.Running != nil {
			t.Error("the client runs without its link")
		}
	}
}
