#!/bin/bash
# Gradescope runs this once, as root, when it builds an assignment's image: what is in the autograder's zip lies
# in /autograder/source. The zip is made in a checkout of the course, with your steps.txt, one step per line:
#
#     git archive -o autograder.zip --add-file=course_utils/classroom/setup.sh \
#       --add-file=course_utils/classroom/run_autograder --add-file=steps.txt --prefix=course/ HEAD
#
# Give its container the most memory and processors that Gradescope offers: a compiler may take 4 GB.
set -euo pipefail
root=${AUTOGRADER:-/autograder}
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends make python3 python3-dev python3-venv
python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))'; then # as on Ubuntu 22.04
  python=python3.12
  apt-get install -y --no-install-recommends software-properties-common
  add-apt-repository -y ppa:deadsnakes/ppa
  apt-get install -y --no-install-recommends "$python-dev" "$python-venv"
fi
cd "$root/source/course"
make venv PYTHON="$python"
.venv/bin/pip install -q -e '.[lab,teach]' -c requirements.lock
.venv/bin/course doctor || true # its lines stand in the build's output
.venv/bin/python -c 'from course_utils.classroom import workshop; workshop.prepare()'
