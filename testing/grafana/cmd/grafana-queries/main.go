// grafana-queries reads a dashboard as Grafana's own types have it: each member known and of its
// type, each panel of a type that there is, none on another. It prints what the dashboard asks for,
// one JSON object a line:
//
//	{"kind":"variable","name":"cluster","query":"label_values(...)"}
//	{"kind":"panel","title":"Phase","ref":"A","query":"...","legend":"{{cluster}}"}
//
// It ends with 1, and a line for each mistake, for a dashboard that Grafana would not take as it is
// meant.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

type line struct {
	Kind   string `json:"kind"`
	Name   string `json:"name,omitempty"`
	Title  string `json:"title,omitempty"`
	Ref    string `json:"ref,omitempty"`
	Query  string `json:"query"`
	Legend string `json:"legend,omitempty"`
}

type reader struct {
	lines    []line
	mistakes []string
	ids      map[uint32]string
	placed   map[[2]uint32]string // which panel has this cell of the grid
}

func (r *reader) wrong(format string, args ...any) {
	r.mistakes = append(r.mistakes, fmt.Sprintf(format, args...))
}

func (r *reader) check(where string, err error) {
	if err != nil && err.Error() != "" {
		r.wrong("%s%v", where, err)
	}
}

type rawPanel struct {
	Title       string            `json:"title"`
	FieldConfig json.RawMessage   `json:"fieldConfig"`
	Targets     []json.RawMessage `json:"targets"`
	Panels      []rawPanel        `json:"panels"` // of a row
}

// What the strict decoder of panels does not look at strictly (v0.0.22): what they say of values, and
// their queries.
func (r *reader) checkPanels(panels []rawPanel) {
	for _, panel := range panels {
		where := fmt.Sprintf("panel %q: ", panel.Title)
		if panel.FieldConfig != nil {
			var config dashboard.FieldConfigSource
			r.check(where, config.UnmarshalJSONStrict(panel.FieldConfig))
		}
		for _, target := range panel.Targets {
			var query prometheus.Dataquery
			r.check(where, query.UnmarshalJSONStrict(target))
		}
		r.checkPanels(panel.Panels)
	}
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func (r *reader) place(title string, id *uint32, at *dashboard.GridPos) {
	if id == nil {
		r.wrong("panel %q has no id", title)
	} else if other, taken := r.ids[*id]; taken {
		r.wrong("panels %q and %q have the id %d", other, title, *id)
	} else {
		r.ids[*id] = title
	}
	if at == nil {
		r.wrong("panel %q has no place", title)
		return
	}
	if at.X+at.W > 24 {
		r.wrong("panel %q is wider than the 24 columns that there are", title)
	}
	for x := at.X; x < at.X+at.W; x++ {
		for y := at.Y; y < at.Y+at.H; y++ {
			cell := [2]uint32{x, y}
			if other, taken := r.placed[cell]; taken {
				r.wrong("panels %q and %q lie on each other", other, title)
				return
			}
			r.placed[cell] = title
		}
	}
}

func (r *reader) panel(panel *dashboard.Panel) {
	title := text(panel.Title)
	r.place(title, panel.Id, panel.GridPos)
	if _, known := cog.NewRuntime().ConfigForPanelcfgVariant(panel.Type); !known {
		r.wrong("panel %q: Grafana has no panel of the type %q", title, panel.Type)
	}
	refs := map[string]bool{}
	for _, target := range panel.Targets {
		// The decoder goes by the type of the panel's data source.
		query, ok := target.(prometheus.Dataquery)
		if !ok {
			if pointer, isPointer := target.(*prometheus.Dataquery); isPointer {
				query, ok = *pointer, true
			}
		}
		if !ok {
			r.wrong("panel %q has a query of another data source: %T", title, target)
			continue
		}
		ref := text(query.RefId)
		if refs[ref] {
			r.wrong("panel %q has two queries %q", title, ref)
		}
		refs[ref] = true
		r.lines = append(r.lines, line{Kind: "panel", Title: title, Ref: ref, Query: query.Expr,
			Legend: text(query.LegendFormat)})
	}
	if len(panel.Targets) == 0 {
		r.wrong("panel %q asks for nothing", title)
	}
}

func (r *reader) variable(variable *dashboard.VariableModel) {
	query := ""
	if variable.Query != nil && variable.Query.String != nil {
		query = *variable.Query.String
	}
	r.lines = append(r.lines, line{Kind: "variable", Name: variable.Name, Query: query})
}

func (r *reader) read(raw []byte) {
	// The strict decoders find what is wrong, and return an empty list of errors where nothing is, for
	// which they themselves leave out every panel (v0.0.22): what there is, the others say.
	var strict, found dashboard.Dashboard
	r.check("", strict.UnmarshalJSONStrict(raw))
	if err := json.Unmarshal(raw, &found); err != nil {
		r.wrong("%v", err)
		return
	}
	r.check("", found.Validate())
	var parts struct {
		Panels []rawPanel `json:"panels"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		r.wrong("%v", err)
		return
	}
	r.checkPanels(parts.Panels)
	for i := range found.Templating.List {
		r.variable(&found.Templating.List[i])
	}
	for _, each := range found.Panels {
		if each.Panel != nil {
			r.panel(each.Panel)
		}
		if each.RowPanel != nil {
			r.place(text(each.RowPanel.Title), &each.RowPanel.Id, each.RowPanel.GridPos)
			for i := range each.RowPanel.Panels {
				r.panel(&each.RowPanel.Panels[i])
			}
		}
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: grafana-queries DASHBOARD")
		os.Exit(2)
	}
	raw, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	plugins.RegisterDefaultPlugins()
	r := reader{ids: map[uint32]string{}, placed: map[[2]uint32]string{}}
	r.read(raw)
	for _, mistake := range r.mistakes {
		fmt.Fprintln(os.Stderr, mistake)
	}
	if len(r.mistakes) > 0 {
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for _, each := range r.lines {
		if err := out.Encode(each); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
