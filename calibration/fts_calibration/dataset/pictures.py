"""A folder of pictures: each one decoded and preprocessed exactly as a frame is at run time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from fts.errors import CalibrationError, FrameError, ImageDecodeError
from fts.imaging.decode import decode_bgr, is_picture_name
from fts.imaging.opencv import cv2
from fts.imaging.preprocess import net_size, tensor_from_frame
from fts.vocabulary.preprocessing import Preprocessing
from fts.vocabulary.tensor_spec import TensorSpec
from fts_calibration.dataset.calibration_set import FileRecord, Sample
from fts_calibration.dataset.folder_files import FolderEntry
from fts_calibration.dataset.input_request import Array, Feed, InputRequest, feeds_with_rows
from fts_calibration.dataset.watcher import Watcher

_MEAN_DECIMALS = 3  # the last bits of a mean depend on the processor, and the report must not


def samples_from_pictures(
    entries: Sequence[FolderEntry],
    inputs: Sequence[InputRequest],
    rows: Mapping[str, Array],
    source: str,
    watcher: Watcher,
) -> tuple[list[Sample], list[FileRecord]]:
    """Decode every picture once, to learn which are usable; their tensors are made again when they are fed.

    Args:
        entries: The folder.
        inputs: What the net asks for; exactly one image, and values for every tensor.
        rows: Values of the tensor inputs, by name.
        source: Option and path as the user gave them, for messages.
        watcher: Told of every usable picture.

    Returns:
        Usable pictures by sha256 of the file, and records of all other files.

    Raises:
        CalibrationError: Pictures alone cannot feed the net.
    """
    spec, pre = _only_image(inputs, source)
    used: list[Sample] = []
    skipped: list[FileRecord] = []
    for entry in entries:
        if entry.obstacle:
            is_notable = entry.is_notable and is_picture_name(entry.name)
            skipped.append(FileRecord(path=entry.name, status="skipped", reason=entry.obstacle, is_notable=is_notable))
        elif not is_picture_name(entry.name):
            skipped.append(FileRecord(path=entry.name, status="skipped", reason="not a picture by its suffix"))
        else:
            record = _inspect(entry, spec, pre, watcher)
            if record.status == "used":
                used.append(Sample(record=record, read=_reader(entry.path, record, spec, pre, rows)))
            else:
                skipped.append(record)
    used.sort(key=lambda sample: (sample.record.sha256, sample.record.path))
    return used, skipped


def _only_image(inputs: Sequence[InputRequest], source: str) -> tuple[TensorSpec, Preprocessing]:
    """The one input that pictures feed."""
    images = [request for request in inputs if request.kind == "image"]
    if len(images) != 1:
        names = [request.spec.name for request in images]
        found = f"image inputs {names}" if names else f"no image input among {[r.spec.name for r in inputs]}"
        raise CalibrationError(
            f"{source}: the net has {found}, a folder of pictures feeds exactly one. "
            "Give a folder of .npz, one array for each input, or correct `kind` in the card."
        )
    for request in inputs:
        if request.kind == "tensor" and request.values is None:
            name = request.spec.name
            raise CalibrationError(
                f"{source}: input {name!r} ({request.spec.dtype} {request.spec.shape}) is no picture and has no "
                f"values, so pictures alone cannot calibrate the net. In the card, set [inputs.{name}] value = ... "
                f'(its run-time default), values = "file.npy" (rows) or freeze = true; or give .npz with a key '
                f"{name!r}."
            )
    (image,) = images
    if image.preprocessing is None:
        raise ValueError(f"image input {image.spec.name!r} was requested without preprocessing")
    net_size(image.spec, image.preprocessing)  # a contradiction is the net's, not a reason to skip every picture
    return image.spec, image.preprocessing


def _inspect(entry: FolderEntry, spec: TensorSpec, pre: Preprocessing, watcher: Watcher) -> FileRecord:
    """Decode one picture and try to fit it."""
    sha256 = ""
    try:
        data = entry.path.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        frame = decode_bgr(data)
        if pre.fit == "exact":
            _require_net_size(frame.shape, net_size(spec, pre))
    except OSError as error:
        reason = f"cannot be read ({error.strerror or error})"
    except ImageDecodeError as error:
        reason = str(error)
    else:
        watcher.picture(entry.name, frame)
        blue, green, red = (round(float(value), _MEAN_DECIMALS) for value in cv2.mean(frame)[:3])
        return FileRecord(path=entry.name, status="used", mean_rgb=(red, green, blue), sha256=sha256)
    return FileRecord(path=entry.name, status="skipped", reason=reason, sha256=sha256, is_notable=True)


def _require_net_size(shape: tuple[int, ...], size: tuple[int, int]) -> None:
    if shape[:2] != size:
        raise ImageDecodeError(
            f"is {shape[1]}x{shape[0]} (width x height), the net takes {size[1]}x{size[0]} under --fit exact; "
            "use --fit letterbox"
        )


def _reader(
    file: Path, record: FileRecord, spec: TensorSpec, pre: Preprocessing, rows: Mapping[str, Array]
) -> Callable[[], Iterator[Feed]]:
    def read() -> Iterator[Feed]:
        try:
            data = file.read_bytes()
            if hashlib.sha256(data).hexdigest() != record.sha256:
                raise CalibrationError(f"{record.path}: changed while it was used. Start again with files at rest.")
            tensor, _ = tensor_from_frame(decode_bgr(data), spec, pre)
        except (OSError, FrameError) as cause:
            raise CalibrationError(f"{record.path}: could be read at first and cannot now ({cause}).") from cause
        yield from feeds_with_rows({spec.name: tensor}, rows)

    return read
