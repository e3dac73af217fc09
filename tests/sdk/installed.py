"""The SDK as it is installed, and the templates built out of tree against it."""
import pathlib
import subprocess


def run(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=900, **options)
    if result.returncode != 0:
        raise AssertionError(f"{command}: exit {result.returncode}\n{result.stdout[-6000:]}\n{result.stderr[-6000:]}")
    return result.stdout


def install(build, prefix):
    run("cmake", "--install", build, "--component", "sdk", "--prefix", prefix)


def build_templates(prefix, folder, compilers, torch=None):
    """Configures and builds a copy of the templates; the folder of plugins."""
    folder = pathlib.Path(folder)
    run("cp", "-r", pathlib.Path(prefix) / "share/lfrun_sdk/template", folder)
    cc, cxx = compilers
    options = [f"-DCMAKE_C_COMPILER={cc}", f"-DCMAKE_CXX_COMPILER={cxx}", f"-DCMAKE_PREFIX_PATH={prefix}",
               "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror", "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror", "-DCMAKE_BUILD_TYPE=Release"]
    if torch:
        options.append(f"-DLFRUN_TORCH={torch}")
    run("cmake", "-S", folder, "-B", folder / "build", *options)
    run("cmake", "--build", folder / "build")
    return folder / "build/plugins"
