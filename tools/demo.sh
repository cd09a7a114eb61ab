# ./dev demo: from nothing to a proved answer. Sourced by ./dev.

# stream_chat URL QUESTION: prints the answer's text as it arrives.
stream_chat() {
  python3 - "$@" <<'PY'
import json, sys, urllib.request
url, question = sys.argv[1:]
body = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 96, "stream": True}
request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
fingerprint = ""
with urllib.request.urlopen(request, timeout=300) as response:
    for line in response:
        line = line.decode("utf-8").strip()
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        chunk = json.loads(line[6:])
        fingerprint = chunk.get("system_fingerprint") or fingerprint
        for choice in chunk["choices"]:
            sys.stdout.write(choice["delta"].get("content") or "")
            sys.stdout.flush()
print("\n    (" + fingerprint + ")")
PY
}

# gate_preset PRESET TOKENS: serves the model under a preset and gates it alone and sixteen at once.
gate_preset() {
  local preset=$1 tokens=$2
  say "preset $preset: 16 prompts, $tokens tokens each, alone and sixteen at once"
  stop_server
  serve_smollm2 "$demo_log" --contract "$preset"
  build/release/isobit gate "$server_url" --concurrency 16 --max-tokens "$tokens" --json "build/demo-gate-$preset.json"
}

demo() {
  local keep=0
  case "${1:-}" in
    "") ;;
    --keep) keep=1 ;;
    *) die "demo takes only --keep" ;;
  esac
  setup "${debian_packages[@]}"
  build
  local path
  path=$(model smollm2)
  demo_log=build/demo-server.log
  trap stop_server EXIT

  say "serving $(basename "$path")"
  serve_smollm2 "$demo_log"
  cat "$demo_log" >&2
  local question="Why do leaves turn red in autumn? Answer in two sentences."
  printf '\n    user: %s\n    assistant: ' "$question"
  stream_chat "$server_url" "$question"
  echo

  local held=0
  gate_preset tensor-core 16 || held=$?
  gate_preset portable 128 || held=$?
  [ "$held" -eq 0 ] || die "the gate did not hold (exit code $held); reports: build/demo-gate-*.json, server log: $demo_log"

  cat <<TXT

Every answer was the same alone and in company, to the last bit. Reports: build/demo-gate-*.json
How to go on:
  ./dev demo --keep                                    leave the server up
  build/release/isobit run --model $path --chat
  build/release/isobit serve --model $path --port 8000
  build/release/isobit gate http://127.0.0.1:8000 --help
TXT
  if [ "$keep" -eq 1 ]; then
    trap - EXIT
    echo "The server stays up at $server_url (process $server_pid); stop it with: kill $server_pid"
  fi
}
